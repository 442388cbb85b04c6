#include "base/json.hpp"

#include <vma/error.hpp>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_stack.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

namespace vma {
namespace {

namespace json = boost::json;
using Code = boost::system::error_code;

/// What Boost.JSON's parser calls: builds the value. Differs from Boost's own handler in numbers,
/// which are the nearest ones, and in keys, each of which an object may have once.
class JsonBuilder {
 public:
  static constexpr std::size_t max_object_size = json::object::max_size(),
                               max_array_size = json::array::max_size(),
                               max_key_size = json::string::max_size(),
                               max_string_size = json::string::max_size();

  JsonBuilder() { stack_.reset(); }

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code&) {
    objects_.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t members, Code&) {
    objects_.pop_back();
    stack_.push_object(members);
    return true;
  }
  bool on_array_begin(Code&) { return true; }
  bool on_array_end(std::size_t elements, Code&) {
    stack_.push_array(elements);
    return true;
  }
  bool on_key_part(json::string_view part, std::size_t, Code&) { return add(part); }
  bool on_key(json::string_view part, std::size_t, Code& failed) {
    add(part);
    Object& object = objects_.back();
    object.key = text_;
    if (!object.keys.insert(text_).second) {
      twice_.emplace();
      for (const Object& around : objects_) *twice_ = join_path(*twice_, around.key);
      failed = json::error::syntax;
      return false;
    }
    stack_.push_key(std::exchange(text_, {}));
    return true;
  }
  bool on_string_part(json::string_view part, std::size_t, Code&) { return add(part); }
  bool on_string(json::string_view part, std::size_t, Code&) {
    add(part);
    stack_.push_string(std::exchange(text_, {}));
    return true;
  }
  bool on_number_part(json::string_view part, Code&) { return add(part); }
  bool on_int64(std::int64_t number, json::string_view, Code&) {
    text_.clear();
    stack_.push_int64(number);
    return true;
  }
  bool on_uint64(std::uint64_t number, json::string_view, Code&) {
    text_.clear();
    stack_.push_uint64(number);
    return true;
  }
  bool on_double(double number, json::string_view part, Code&) {
    add(part);  // Infinite if it is too large, as for Boost.JSON.
    std::from_chars(text_.data(), text_.data() + text_.size(), number);
    text_.clear();
    stack_.push_double(number);
    return true;
  }
  bool on_bool(bool flag, Code&) {
    stack_.push_bool(flag);
    return true;
  }
  bool on_null(Code&) {
    stack_.push_null();
    return true;
  }
  bool on_comment_part(json::string_view, Code&) { return true; }
  bool on_comment(json::string_view, Code&) { return true; }

  json::value release() { return stack_.release(); }
  /// The path of a key that an object has twice, without the indices of lists.
  const std::optional<std::string>& twice() const { return twice_; }

 private:
  struct Object {
    std::set<std::string> keys;
    std::string key;  // The last one.
  };

  bool add(json::string_view part) {
    text_.append(part.data(), part.size());
    return true;
  }

  json::value_stack stack_;
  std::vector<Object> objects_;  // Those that are open, outermost first.
  std::string text_;             // The parts so far of a key, string or number.
  std::optional<std::string> twice_;
};

constexpr std::size_t indent_columns = 2;

/// The shortest text that parses to the same number. Very small and very large numbers have
/// an exponent.
std::string number_text(double number) {
  const double size = std::abs(number);
  if (size != 0 && (size < 1e-9 || size >= 1e15)) return fmt::format("{}", number);
  char text[40];
  const auto written =
      std::to_chars(std::begin(text), std::end(text), number, std::chars_format::fixed);
  return {std::begin(text), written.ptr};
}

/// `used` is the number of columns taken on the line before and after the text.
std::string joined(const std::vector<std::string>& parts, const char* brackets, std::size_t columns,
                   std::size_t indent, std::size_t used) {
  const std::string line = fmt::format("{}{}{}", brackets[0], fmt::join(parts, ", "), brackets[1]);
  const bool fits = columns == std::string::npos ||
                    (line.find('\n') == std::string::npos && used + line.size() <= columns);
  if (fits || parts.empty()) return line;
  const std::string begin(indent + indent_columns, ' ');
  return fmt::format("{}\n{}{}\n{:{}}{}", brackets[0], begin, fmt::join(parts, ",\n" + begin), "",
                     indent, brackets[1]);
}

std::string written(const json::value& value, std::size_t columns, std::size_t indent,
                    std::size_t used) {
  const std::size_t inner = indent + indent_columns;
  std::vector<std::string> parts;
  if (const json::object* const object = value.if_object()) {
    for (const auto& [name, member] : *object) {
      const std::string key = json::serialize(json::value(name)) + ": ";
      parts.push_back(key + written(member, columns, inner, inner + key.size() + 1));
    }
    return joined(parts, "{}", columns, indent, used);
  }
  if (const json::array* const array = value.if_array()) {
    for (const json::value& element : *array) {
      parts.push_back(written(element, columns, inner, inner + 1));
    }
    return joined(parts, "[]", columns, indent, used);
  }
  if (const double* const number = value.if_double()) return number_text(*number);
  return json::serialize(value);
}

}  // namespace

json::value parse_json(std::string_view text, const std::string& file, const std::string& call) {
  json::basic_parser<JsonBuilder> parser({});
  Code failed;
  std::size_t line = 0, at = 0;
  do {  // Line by line, to know in which one it fails.
    ++line;
    const std::size_t bytes = std::min(text.find('\n', at), text.size() - 1) + 1 - at;
    const bool more = at + bytes < text.size();
    const std::size_t good = parser.write_some(more, text.data() + at, bytes, failed);
    if (!failed && good < bytes) failed = json::error::extra_data;
    at += bytes;
  } while (!failed && at < text.size());
  if (!failed) return parser.handler().release();
  const std::optional<std::string>& twice = parser.handler().twice();
  throw Error(ErrorKind::invalid_argument, call,
              fmt::format("{}: line {}: {}", file, line,
                          twice ? *twice + ": appears twice" : failed.message()));
}

std::string join_path(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

std::string join_path(std::string_view path, std::size_t index) {
  return fmt::format("{}[{}]", path, index);
}

std::string readable_json(const json::value& value, std::size_t columns) {
  return written(value, columns, 0, 0);
}

JsonReader::JsonReader(const json::value& value, std::string file, std::string path,
                       std::string call)
    : object_(value.if_object()),
      file_(std::move(file)),
      path_(std::move(path)),
      call_(std::move(call)) {
  if (object_ == nullptr) refuse("", "is not an object");
}

std::string JsonReader::place(std::string_view key) const {
  if (key.empty()) return path_.empty() ? "the whole file" : path_;
  return join_path(path_, key);
}

std::string JsonReader::where(std::string_view key) const {
  return fmt::format("{}: {}", file_, place(key));
}

void JsonReader::refuse(std::string_view key, std::string_view reason) const {
  throw Error(ErrorKind::invalid_argument, call_, fmt::format("{}: {}", where(key), reason));
}

const json::value& JsonReader::at(std::string_view key) {
  asked_.emplace(key);
  const json::value* value = object_->if_contains(key);
  if (value == nullptr) refuse(key, "is missing");
  return *value;
}

const json::array& JsonReader::list(std::string_view key) {
  const json::array* array = at(key).if_array();
  if (array == nullptr) refuse(key, "is not a list");
  return *array;
}

std::string JsonReader::text(std::string_view key) {
  const json::string* text = at(key).if_string();
  if (text == nullptr) refuse(key, "must be a string");
  if (text->empty()) refuse(key, "is empty");
  return std::string(*text);
}

bool JsonReader::flag(std::string_view key, bool otherwise) {
  asked_.emplace(key);
  if (!has(key)) return otherwise;
  const bool* value = at(key).if_bool();
  if (value == nullptr) refuse(key, "must be true or false");
  return *value;
}

double JsonReader::number(std::string_view key, double least, double most) {
  const json::value& value = at(key);
  if (!value.is_number()) refuse(key, "is not a number");
  const double number = value.to_number<double>();
  if (!std::isfinite(number) || number < least || number > most) {
    refuse(key, fmt::format("{} is not between {} and {}", number, least, most));
  }
  return number;
}

std::int64_t JsonReader::integer(std::string_view key, std::int64_t least, std::int64_t most) {
  const json::value& value = at(key);
  Code failed;
  const auto number = value.is_number() ? value.to_number<std::int64_t>(failed) : 0;
  if (!value.is_number() || failed) refuse(key, "is not a whole number");
  if (number < least || number > most) {
    refuse(key, fmt::format("{} is not between {} and {}", number, least, most));
  }
  return number;
}

std::int64_t JsonReader::integer_or(std::string_view key, std::int64_t otherwise,
                                    std::int64_t least, std::int64_t most) {
  asked_.emplace(key);
  return has(key) ? integer(key, least, most) : otherwise;
}

JsonReader JsonReader::object(std::string_view key) {
  return {at(key), file_, place(key), call_};
}

JsonReader JsonReader::element(std::string_view key, std::size_t index) {
  return {list(key).at(index), file_, join_path(place(key), index), call_};
}

void JsonReader::finish() const {
  for (const auto& member : *object_) {
    if (!asked_.contains(std::string_view(member.key())))
      refuse(member.key(), "is not a known key of this object");
  }
}

}  // namespace vma
