#include "lab/trace/trace_line_parser.hpp"

#include "lab/trace/trace_event.hpp"

#include <vma/error.hpp>

#include <boost/json/basic_parser_impl.hpp>
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

namespace {

/// A JSON number: unsigned 64-bit integers are exact.
struct JsonNumber {
  double real = 0;
  std::optional<std::uint64_t> whole;  ///< Not set if negative, a fraction, or too large.
};

/// Collects the members of one line's JSON object into an event. Independent of the parser. Every
/// function returns the fault, or null.
class TraceLineFields {
 public:
  void clear();
  /// The key of the next value.
  const char* key(std::string_view name);
  const char* number(const JsonNumber& number);
  const char* text(std::string_view text);
  /// The elements follow, as numbers.
  const char* list();
  const char* list_end();
  /// Call after the last member. Leaves `tag` for the caller to intern.
  const char* finish(TraceEvent& event);

  /// The key that a fault refers to: the last one, or the missing one.
  std::string_view name() const noexcept { return name_; }
  std::string_view tag() const noexcept { return tag_; }
  /// The predecessors of a task.
  std::span<const std::uint64_t> after() const noexcept { return after_; }

  enum class Field : std::uint8_t {
    kind,
    time_ns,
    object,
    bytes,
    offset,
    duration_ns,
    chunk_bytes,
    task,
    passes,
    device,
    home,
    use,
    tag,
    after,
    after_task,
    compute_ns,
    repeat,
    request,
    next_use_ns,
    until_ns,
  };

 private:
  static constexpr unsigned bit(Field field) { return 1u << static_cast<unsigned>(field); }
  const char* set_kind(std::string_view text);
  const char* set_use(std::string_view text);
  const char* set_home(std::string_view text);
  const char* require(unsigned needed, unsigned allowed);
  const char* require_members();
  const char* set_task(const JsonNumber& number);
  const char* add_after(const JsonNumber& number);

  TraceEvent event_;
  Field field_{};
  unsigned seen_ = 0;  // A bit per field.
  std::string_view name_;
  std::string unknown_;  // A key that no event has; `name_` refers to it.
  std::string tag_;
  std::vector<std::uint64_t> after_;
  bool in_list_ = false;
  std::uint64_t device_ = 0;
  TracePlace home_;
};

constexpr std::array<std::string_view, 20> field_names{
    "event",      "time_ns",    "object", "bytes",   "offset",      "duration_ns", "chunk_bytes",
    "task",       "passes",     "device", "home",    "use",         "tag",         "after",
    "after_task", "compute_ns", "repeat", "request", "next_use_ns", "until_ns"};

constexpr const char* not_whole = "is not a whole number of at least 0";

void TraceLineFields::clear() {
  event_ = TraceEvent{};
  seen_ = 0;
  name_ = {};
  tag_.clear();
  after_.clear();
  in_list_ = false;
}

const char* TraceLineFields::key(std::string_view name) {
  for (std::size_t field = 0; field < field_names.size(); ++field) {
    if (name != field_names[field]) continue;
    name_ = field_names[field];
    field_ = static_cast<Field>(field);
    if ((seen_ & bit(field_)) != 0) return "appears twice";
    seen_ |= bit(field_);
    return nullptr;
  }
  constexpr std::size_t letters_max = 64;
  unknown_ = fmt::format("\"{}\"", name.substr(0, letters_max));
  name_ = unknown_;
  return "is not a key of any event";
}

const char* TraceLineFields::set_task(const JsonNumber& number) {
  if (!number.whole || *number.whole > UINT32_MAX) return not_whole;
  event_.task = static_cast<std::uint32_t>(*number.whole);
  return nullptr;
}

const char* TraceLineFields::add_after(const JsonNumber& number) {
  if (!in_list_) return "is not a list";
  if (!number.whole) return not_whole;
  if (after_.size() == trace_after_max) return "is too long";
  after_.push_back(*number.whole);
  return nullptr;
}

const char* TraceLineFields::list() {
  if (field_ != Field::after || in_list_) return "is a list";
  in_list_ = true;
  return nullptr;
}

const char* TraceLineFields::list_end() {
  in_list_ = false;
  return nullptr;
}

const char* TraceLineFields::number(const JsonNumber& number) {
  const auto whole = [&number](std::uint64_t& member) {
    if (!number.whole) return not_whole;
    member = *number.whole;
    return static_cast<const char*>(nullptr);
  };
  const auto time = [&number](Time& member) {
    if (!number.whole || *number.whole > INT64_MAX) return not_whole;
    member = Time(static_cast<std::int64_t>(*number.whole));
    return static_cast<const char*>(nullptr);
  };
  switch (field_) {
    case Field::time_ns: return time(event_.time);
    case Field::object: return whole(event_.object);
    case Field::bytes: return whole(event_.bytes);
    case Field::offset: return whole(event_.offset);
    case Field::duration_ns: return time(event_.duration);
    case Field::chunk_bytes: return whole(event_.chunk_bytes);
    case Field::compute_ns:
    case Field::next_use_ns: return time(event_.duration);
    case Field::until_ns: return whole(event_.chunk_bytes);
    case Field::repeat: return whole(event_.bytes);
    case Field::request: return whole(event_.object);
    case Field::task:
    case Field::after_task: return set_task(number);
    case Field::after: return add_after(number);
    case Field::passes: event_.passes = static_cast<float>(number.real); return nullptr;
    case Field::device:
      if (!number.whole || *number.whole > TracePlace::ordinal_max) return "is not a GPU number";
      device_ = *number.whole;
      return nullptr;
    case Field::kind:
    case Field::home:
    case Field::use:
    case Field::tag: return "must be a string";
  }
  return nullptr;
}

const char* TraceLineFields::set_kind(std::string_view text) {
  for (unsigned kind = 1; kind <= trace_event_kinds; ++kind) {
    event_.kind = static_cast<TraceEventKind>(kind);
    if (event_.kind == TraceEventKind::after) continue;  // A member of its task's line.
    if (text == to_string(event_.kind)) return nullptr;
  }
  return "is not one of access, alloc, free, tag, mark, place, task and hint";
}

const char* TraceLineFields::set_use(std::string_view text) {
  if (text == "read") {
    event_.use = UseKind::read;
  } else if (text == "write") {
    event_.use = UseKind::write;
  } else if (text == "read_write") {
    event_.use = UseKind::read_write;
  } else {
    return "is not one of read, write and read_write";
  }
  return nullptr;
}

const char* TraceLineFields::set_home(std::string_view text) {
  try {
    const Place place = parse_place(std::string(text));
    if (place.ordinal > TracePlace::ordinal_max) return "names no place";
    home_ = TracePlace(place);
    return nullptr;
  } catch (const Error&) {
    return "names no place";
  }
}

const char* TraceLineFields::text(std::string_view text) {
  switch (field_) {
    case Field::kind: return set_kind(text);
    case Field::use: return set_use(text);
    case Field::home: return set_home(text);
    case Field::tag: tag_ = text; return nullptr;
    case Field::after: return in_list_ ? "is not a number" : "is not a list";
    default: return "is not a number";
  }
}

const char* TraceLineFields::require(unsigned needed, unsigned allowed) {
  for (unsigned field = 0; field < field_names.size(); ++field) {
    const unsigned mask = 1u << field;
    name_ = field_names[field];
    if ((needed & ~seen_ & mask) != 0) return "is missing";
    if ((seen_ & ~needed & ~allowed & mask) != 0) return "does not belong to this event";
  }
  name_ = {};
  return nullptr;
}

const char* TraceLineFields::require_members() {
  constexpr unsigned always = bit(Field::kind) | bit(Field::time_ns);
  switch (event_.kind) {
    case TraceEventKind::access:
      return require(always | bit(Field::object) | bit(Field::bytes),
                     bit(Field::offset) | bit(Field::duration_ns) | bit(Field::task) |
                         bit(Field::passes) | bit(Field::device) | bit(Field::use));
    case TraceEventKind::allocation:
      return require(
          always | bit(Field::object) | bit(Field::bytes),
          bit(Field::chunk_bytes) | bit(Field::home) | bit(Field::tag) | bit(Field::after_task));
    case TraceEventKind::free: return require(always | bit(Field::object), bit(Field::after_task));
    case TraceEventKind::tag: return require(always | bit(Field::object) | bit(Field::tag), 0);
    case TraceEventKind::place:
      return require(always | bit(Field::object) | bit(Field::bytes) | bit(Field::home),
                     bit(Field::offset));
    case TraceEventKind::task:
      return require(always | bit(Field::task), bit(Field::after) | bit(Field::compute_ns) |
                                                    bit(Field::repeat) | bit(Field::request) |
                                                    bit(Field::device) | bit(Field::tag));
    case TraceEventKind::hint:
      return require(always | bit(Field::object) | bit(Field::bytes),
                     bit(Field::offset) | bit(Field::use) | bit(Field::passes) |
                         bit(Field::next_use_ns) | bit(Field::until_ns) | bit(Field::device) |
                         bit((seen_ & bit(Field::task)) != 0 ? Field::task : Field::after_task));
    case TraceEventKind::mark:
    case TraceEventKind::after: break;
  }
  return require(always | bit(Field::tag), bit(Field::after_task));
}

const char* TraceLineFields::finish(TraceEvent& event) {
  if (const char* wrong = require_members()) return wrong;
  if ((seen_ & bit(Field::device)) != 0) event_.at = TracePlace(gpu(static_cast<int>(device_)));
  if ((seen_ & bit(Field::home)) != 0) event_.at = home_;
  if (event_.kind == TraceEventKind::task && (seen_ & bit(Field::repeat)) == 0) event_.bytes = 1;
  if (event_.kind == TraceEventKind::hint) {
    event_.at_end = (seen_ & bit(Field::after_task)) != 0;
    if ((seen_ & bit(Field::next_use_ns)) == 0) event_.duration = trace_time_unknown;
    if ((seen_ & bit(Field::use)) == 0) event_.use = UseKind::read_write;
  }
  event = event_;
  return nullptr;
}

namespace json = boost::json;

/// Passes what the parser finds to the fields. Boost.JSON prescribes the names and signatures. A
/// rejected member stops the parse through the error code; `wrong` holds the reason.
struct Handler {
  static constexpr std::size_t max_object_size = 64;
  static constexpr std::size_t max_array_size = trace_after_max + 1;
  static constexpr std::size_t max_key_size = 64;
  static constexpr std::size_t max_string_size = 4096;

  TraceLineFields fields;
  std::string text;  // Earlier parts of a key or string.
  const char* wrong = nullptr;
  bool inside = false;

  bool judge(const char* verdict, json::error_code& failed) {
    if (verdict == nullptr) return true;
    wrong = verdict;
    failed = json::error::syntax;
    return false;
  }
  bool only_members(json::error_code& failed) {
    return inside || judge("is not an object", failed);
  }

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code& failed) {
    if (inside) return judge("is an object", failed);
    return inside = true;
  }
  bool on_object_end(std::size_t, json::error_code&) { return true; }
  bool on_array_begin(json::error_code& failed) {
    return only_members(failed) && judge(fields.list(), failed);
  }
  bool on_array_end(std::size_t, json::error_code& failed) {
    return judge(fields.list_end(), failed);
  }
  bool on_key_part(json::string_view part, std::size_t, json::error_code&) {
    text.append(part.data(), part.size());
    return true;
  }
  bool on_key(json::string_view part, std::size_t size, json::error_code& failed) {
    return judge(fields.key(whole(part, size)), failed);
  }
  bool on_string_part(json::string_view part, std::size_t, json::error_code& failed) {
    if (!only_members(failed)) return false;
    text.append(part.data(), part.size());
    return true;
  }
  bool on_string(json::string_view part, std::size_t size, json::error_code& failed) {
    return only_members(failed) && judge(fields.text(whole(part, size)), failed);
  }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(std::int64_t number, json::string_view, json::error_code& failed) {
    JsonNumber found{static_cast<double>(number), std::nullopt};
    if (number >= 0) found.whole = static_cast<std::uint64_t>(number);
    return only_members(failed) && judge(fields.number(found), failed);
  }
  bool on_uint64(std::uint64_t number, json::string_view, json::error_code& failed) {
    return only_members(failed) &&
           judge(fields.number({static_cast<double>(number), number}), failed);
  }
  bool on_double(double number, json::string_view, json::error_code& failed) {
    return only_members(failed) && judge(fields.number({number, std::nullopt}), failed);
  }
  bool on_bool(bool, json::error_code& failed) {
    return judge("is neither a string nor a number", failed);
  }
  bool on_null(json::error_code& failed) { return judge("is null", failed); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  /// The complete key or string that ends with this part, valid until the next call.
  std::string_view whole(json::string_view part, std::size_t size) {
    if (size == part.size()) return {part.data(), part.size()};
    text.append(part.data(), part.size());
    kept_.swap(text);
    text.clear();
    return kept_;
  }
  std::string kept_;
};

}  // namespace

struct TraceLineParser::Parser {
  json::basic_parser<Handler> parser{json::parse_options{}};
};

TraceLineParser::TraceLineParser() : parser_(std::make_unique<Parser>()) {}
TraceLineParser::~TraceLineParser() = default;

bool TraceLineParser::parse(std::string_view line, TraceEvent& event, TraceTags& tags) {
  json::basic_parser<Handler>& parser = parser_->parser;
  Handler& handler = parser.handler();
  parser.reset();
  handler.fields.clear();
  handler.text.clear();
  handler.wrong = nullptr;
  handler.inside = false;
  json::error_code failed;
  const std::size_t read = parser.write_some(false, line.data(), line.size(), failed);
  const auto refuse = [&](std::string_view why) {
    const std::string_view name = handler.fields.name();
    reason_ = name.empty() ? std::string(why) : fmt::format("{}: {}", name, why);
    return false;
  };
  if (handler.wrong != nullptr) return refuse(handler.wrong);
  if (failed) return reason_ = failed.message(), false;
  if (read != line.size()) return reason_ = "data follows the object", false;
  if (const char* wrong = handler.fields.finish(event)) return refuse(wrong);
  try {
    event.tag = tags.intern(handler.fields.tag());
  } catch (const Error& error) {
    return reason_ = error.what(), false;
  }
  if (const char* fault = fault_of(event)) return reason_ = fault, false;
  after_.clear();
  for (const std::uint64_t predecessor : handler.fields.after()) {
    TraceEvent& after = after_.emplace_back();
    after.kind = TraceEventKind::after;
    after.time = event.time;
    after.task = event.task;
    after.object = predecessor;
    if (const char* fault = fault_of(after)) {
      return reason_ = fmt::format("after: {}", fault), false;
    }
  }
  return true;
}

}  // namespace vma
