#include "lab/trace/trace_line_parser.hpp"

#include "lab/trace/trace_line_fields.hpp"

#include <vma/error.hpp>

#include <boost/json/basic_parser_impl.hpp>
#include <fmt/format.h>

#include <cstddef>

namespace vma {
namespace {

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
