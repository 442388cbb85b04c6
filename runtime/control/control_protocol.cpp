#include "control/control_protocol.hpp"

#include "base/environment.hpp"
#include "base/interface_versions.hpp"
#include "control/control_json.hpp"
#include "control/prometheus.hpp"

#include <vma/error.hpp>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace vma {
namespace {

namespace json = boost::json;

constexpr std::size_t depth_max = 4;  // Requests are not nested deeply.

[[noreturn]] void refuse(const std::string& detail) {
  throw Error(ErrorKind::invalid_argument, "vma::control", detail);
}

/// The members of a request. Each getter throws Error{invalid_argument} for a wrong type.
class Request {
 public:
  explicit Request(const json::object& members) : members_(members) {}

  /// Refuses unknown members, so that a misspelt one is not silently ignored.
  void allow(std::span<const std::string_view> names) const {
    for (const auto& member : members_) {
      const std::string_view key = member.key();
      if (key == "command" || key == "id") continue;
      if (key.empty() || std::find(names.begin(), names.end(), key) == names.end()) {
        refuse(fmt::format("this command has no member \"{}\"", key));
      }
    }
  }

  bool has(std::string_view name) const { return members_.contains(name); }

  std::optional<std::string> text(std::string_view name) const {
    const json::value* value = members_.if_contains(name);
    if (value == nullptr) return std::nullopt;
    return text_of(*value, name);
  }
  /// What the request names: by `address`, by `tag`, whatever it looks like, and by `what`, as on
  /// the command line. Each is one value or an array of them.
  std::vector<Selector> selectors() const {
    std::vector<Selector> all;
    for (const json::value& value : values("address")) {
      all.push_back(Selector::of_address(address_of(value, "address")));
    }
    for (const json::value& value : values("tag")) {
      all.push_back(Selector::of_tag(nonempty_of(value, "tag")));
    }
    for (const json::value& value : values("what")) {
      all.push_back(parse_selector(nonempty_of(value, "what")));
    }
    return all;
  }

  bool flag(std::string_view name) const {
    const json::value* value = members_.if_contains(name);
    if (value == nullptr) return false;
    if (!value->is_bool()) refuse(fmt::format("\"{}\" must be true or false", name));
    return value->get_bool();
  }

  std::uint64_t count(std::string_view name, std::uint64_t otherwise) const {
    const json::value* value = members_.if_contains(name);
    return value == nullptr ? otherwise : count_of(*value, name);
  }

  std::optional<std::uint64_t> address(std::string_view name) const {
    const json::value* value = members_.if_contains(name);
    if (value == nullptr) return std::nullopt;
    return address_of(*value, name);
  }

  Place place(std::string_view name) const {
    const std::optional<std::string> written = text(name);
    if (!written) refuse(fmt::format("\"{}\" is missing", name));
    return parse_place(*written);
  }

  /// A number of bytes, a text such as "20GiB", or "none": UINT64_MAX.
  std::uint64_t size(std::string_view name) const {
    const json::value* value = members_.if_contains(name);
    if (value == nullptr) refuse(fmt::format("\"{}\" is missing", name));
    if (value->is_number()) return count_of(*value, name);
    const std::string written = text_of(*value, name);
    return written == "none" ? UINT64_MAX : parse_size(written, std::string(name).c_str());
  }

  std::size_t most() const {
    return std::clamp<std::size_t>(count("most", control_page_max), 1, control_page_max);
  }

 private:
  static std::string text_of(const json::value& value, std::string_view name) {
    if (!value.is_string()) refuse(fmt::format("\"{}\" must be a string", name));
    return std::string(value.get_string());
  }
  static std::string nonempty_of(const json::value& value, std::string_view name) {
    std::string text = text_of(value, name);
    if (text.empty()) refuse(fmt::format("\"{}\" is empty", name));
    return text;
  }
  static std::uint64_t count_of(const json::value& value, std::string_view name) {
    boost::system::error_code not_exact;
    const auto number = value.is_number() ? value.to_number<std::uint64_t>(not_exact) : 0;
    if (!value.is_number() || not_exact) refuse(fmt::format("\"{}\" is not a count", name));
    return number;
  }
  static std::uint64_t address_of(const json::value& value, std::string_view name) {
    if (value.is_number()) return count_of(value, name);
    const std::string whole = text_of(value, name);
    const auto address = parse_address(whole);
    if (!address) refuse(fmt::format("\"{}\": {} is not an address", name, whole));
    return *address;
  }
  /// None if the member is missing.
  std::span<const json::value> values(std::string_view name) const {
    const json::value* value = members_.if_contains(name);
    if (value == nullptr) return {};
    if (!value->is_array()) return {value, 1};
    return {value->get_array().data(), value->get_array().size()};
  }

  const json::object& members_;
};

template <typename List>
json::array list_of(const List& list) {
  json::array array;
  array.reserve(list.size());
  for (const auto& element : list) array.push_back(to_json(element));
  return array;
}

json::object answer_status(ControlTarget& target, const Request&) {
  json::object answer = to_json(target.status());
  answer["pid"] = static_cast<std::int64_t>(getpid());
  answer["version"] = VMART_VERSION;
  answer["protocol"] = control_protocol;
  return answer;
}

json::object one_allocation(ControlTarget& target, std::uint64_t address, const Request& request) {
  const ControlAllocation allocation = target.allocation(address);
  json::object answer = to_json(allocation);
  const std::size_t total = allocation.extents.size();
  const std::size_t from = std::min<std::size_t>(request.count("from", 0), total);
  const std::size_t end = std::min(total, from + request.most());
  json::array extents;
  for (std::size_t i = from; i < end; ++i) extents.push_back(to_json(allocation.extents[i]));
  answer["extents"] = std::move(extents);
  if (end < total) answer["more_from"] = end;
  return answer;
}

json::object answer_selected(ControlTarget& target, const Request& request) {
  if (request.has("address")) refuse("give either an \"address\" or \"what\"");
  const std::vector<Selector> what = request.selectors();
  if (what.empty()) refuse("\"what\" is empty");
  const ControlPage page = target.select(what, request.address("from").value_or(0), request.most());
  json::object answer{{"allocations", list_of(page.allocations)},
                      {"selected", to_json(page.selected)}};
  if (page.more) {
    answer["more_from"] = fmt::format("{:#x}", page.allocations.back().address + 1);
  }
  return answer;
}

json::object answer_where(ControlTarget& target, const Request& request) {
  if (request.has("what")) return answer_selected(target, request);
  if (const auto address = request.address("address")) {
    return one_allocation(target, *address, request);
  }
  const std::size_t most = request.most();
  const auto found = target.allocations(request.address("from").value_or(0), most);
  json::object answer{{"allocations", list_of(found)}};
  if (found.size() >= most) answer["more_from"] = fmt::format("{:#x}", found.back().address + 1);
  return answer;
}

json::object answer_migrate(ControlTarget& target, const Request& request) {
  const ControlMove move{request.selectors(), request.place("to")};
  if (move.what.empty()) refuse("give an \"address\", a \"tag\" or \"what\"");
  if (request.flag("dry_run")) {
    const ControlPrediction prediction = target.predict(move);
    return {{"prediction", to_json(prediction)}, {"selected", to_json(prediction.selected)}};
  }
  const ControlStarted started = target.start_move(move);
  return {{"operation", started.operation}, {"selected", to_json(started.selected)}};
}

json::object answer_drain(ControlTarget& target, const Request& request) {
  return {{"operation", target.start_drain(request.place("at"))}};
}

json::object answer_capacity(ControlTarget& target, const Request& request) {
  return {{"operation", target.start_capacity(request.place("at"), request.size("bytes"))}};
}

json::object answer_policy(ControlTarget& target, const Request& request) {
  if (const auto policy = request.text("set")) target.set_policy(*policy);
  json::array known;
  for (const std::string& name : target.known_policies()) known.push_back(to_json_text(name));
  return {{"policy", to_json_text(target.policy())}, {"known", std::move(known)}};
}

json::object answer_pause(ControlTarget& target, const Request&) {
  target.pause();
  return {{"paused", true}};
}

json::object answer_resume(ControlTarget& target, const Request&) {
  target.resume();
  return {{"paused", false}};
}

json::object answer_step(ControlTarget& target, const Request&) {
  return {{"operation", target.start_step()}};
}

json::object answer_explain(ControlTarget& target, const Request& request) {
  const auto address = request.address("address");
  if (!address) refuse("\"address\" is missing");
  json::array now;
  for (const std::string& line : target.explain_now(*address)) now.push_back(to_json_text(line));
  return {{"now", std::move(now)},
          {"decisions", list_of(target.explain(*address, request.most()))}};
}

json::object answer_events(ControlTarget& target, const Request& request) {
  const ControlEvents found = target.events(request.count("since", 0), request.most());
  return {{"events", list_of(found.events)}, {"next", found.next}, {"lost", found.lost}};
}

json::object answer_stats(ControlTarget& target, const Request& request) {
  const std::string format = request.text("format").value_or("json");
  if (format == "prometheus") {
    return {{"prometheus", to_json_text(prometheus_text(target.stats()))}};
  }
  if (format != "json")
    refuse(fmt::format("\"format\": {} is neither json nor prometheus", format));
  return to_json(target.stats());
}

struct Command {
  std::string_view name;
  json::object (*answer)(ControlTarget&, const Request&);
  std::array<std::string_view, 5> members = {};  // What requests have beside `command` and `id`.
};
constexpr Command commands[] = {
    {"status", answer_status},
    {"where", answer_where, {"address", "what", "from", "most"}},
    {"migrate", answer_migrate, {"address", "tag", "what", "to", "dry_run"}},
    {"drain", answer_drain, {"at"}},
    {"capacity", answer_capacity, {"at", "bytes"}},
    {"policy", answer_policy, {"set"}},
    {"pause", answer_pause},
    {"resume", answer_resume},
    {"step", answer_step},
    {"explain", answer_explain, {"address", "most"}},
    {"events", answer_events, {"since", "most"}},
    {"stats", answer_stats, {"format"}},
};

json::object perform(ControlTarget& target, const json::object& members) {
  const Request request(members);
  const std::optional<std::string> name = request.text("command");
  std::string known;
  for (const Command& command : commands) {
    if (command.name == name) {
      request.allow(command.members);
      return command.answer(target, request);
    }
    known += fmt::format(" {}", command.name);
  }
  refuse(fmt::format("no command \"{}\"; known are:{}", name.value_or(""), known));
}

json::object error_object(std::string_view kind, std::string_view message) {
  return {{"kind", kind}, {"message", to_json_text(message)}};
}

/// The `id` of a request, which its answer repeats.
std::optional<json::value> identity(const json::object& members) {
  const json::value* id = members.if_contains("id");
  if (id == nullptr || !(id->is_number() || id->is_string())) return std::nullopt;
  return *id;
}

/// Parses the members of a request. If it is invalid, returns nothing and sets `error`.
std::optional<json::object> parse_members(std::string_view line, std::string& error) {
  json::parse_options options;
  options.max_depth = depth_max;
  boost::system::error_code code;
  json::value value = json::parse(line, code, {}, options);
  if (code) {
    error = fmt::format("no JSON: {}", code.message());
  } else if (!value.is_object() || !value.get_object().contains("command")) {
    error = "expected a JSON object with a member \"command\"";
  } else {
    return std::move(value.get_object());
  }
  return std::nullopt;
}

}  // namespace

std::string control_error_line(std::string_view kind, std::string_view message) {
  return json::serialize(json::object{{"error", error_object(kind, message)}}) + "\n";
}

ControlAnswer answer_request(ControlTarget& target, std::string_view line) {
  std::string reason;
  const std::optional<json::object> members = parse_members(line, reason);
  if (!members) return {control_error_line("invalid_argument", reason), true};
  json::object answer;
  if (const auto id = identity(*members)) answer["id"] = *id;
  try {
    answer["ok"] = perform(target, *members);
  } catch (const Error& error) {
    answer["error"] = error_object(to_string(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    answer["error"] = error_object("out_of_memory", "out of memory for the answer");
  } catch (const std::exception& error) {
    answer["error"] = error_object("internal", error.what());
  } catch (...) {
    answer["error"] = error_object("internal", "an exception of an unknown type");
  }
  return {json::serialize(answer) + "\n", false};
}

}  // namespace vma
