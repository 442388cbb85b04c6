#include "machine/json_reader.hpp"

#include "base/nearest_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace vma {

JsonReader::JsonReader(const boost::json::value& value, const JsonText* text, std::string file,
                       std::string path, std::string call)
    : object_(value.if_object()),
      text_(text),
      file_(std::move(file)),
      path_(std::move(path)),
      call_(std::move(call)) {
  if (object_ == nullptr) refuse("", "is not an object");
}

JsonReader::JsonReader(const boost::json::value& value, std::string file, std::string path,
                       std::string call)
    : JsonReader(value, nullptr, std::move(file), std::move(path), std::move(call)) {}

JsonReader::JsonReader(const JsonText& text)
    : JsonReader(text.value(), &text, text.file(), "", text.call()) {}

std::string JsonReader::place(std::string_view key) const {
  if (key.empty()) return path_.empty() ? "the whole file" : path_;
  return JsonText::join(path_, key);
}

std::string JsonReader::where(std::string_view key) const {
  const std::string place_text = place(key);
  if (text_ == nullptr) return fmt::format("{}: {}", file_, place_text);
  const std::size_t line = text_->line(key.empty() ? path_ : place_text);
  return fmt::format("{}: line {}: {}", file_, line, place_text);
}

void JsonReader::refuse(std::string_view key, std::string_view reason) const {
  throw Error(ErrorKind::invalid_argument, call_, fmt::format("{}: {}", where(key), reason));
}

bool JsonReader::has(std::string_view key) const {
  return object_->contains(key);
}

const boost::json::value& JsonReader::at(std::string_view key) {
  asked_.emplace(key);
  const boost::json::value* value = object_->if_contains(key);
  if (value == nullptr) refuse(key, "is missing");
  return *value;
}

const boost::json::array& JsonReader::list(std::string_view key) {
  const boost::json::array* array = at(key).if_array();
  if (array == nullptr) refuse(key, "is not a list");
  return *array;
}

std::string JsonReader::text(std::string_view key) {
  const boost::json::string* text = at(key).if_string();
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
  const boost::json::value& value = at(key);
  if (!value.is_number()) refuse(key, "is not a number");
  const double number = value.to_number<double>();
  if (!std::isfinite(number) || number < least || number > most) {
    refuse(key, fmt::format("{} is not between {} and {}", number, least, most));
  }
  return number;
}

double JsonReader::number_or(std::string_view key, double otherwise, double least, double most) {
  asked_.emplace(key);
  return has(key) ? number(key, least, most) : otherwise;
}

std::int64_t JsonReader::integer(std::string_view key, std::int64_t least, std::int64_t most) {
  const boost::json::value& value = at(key);
  boost::system::error_code failed;
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
  return {at(key), text_, file_, place(key), call_};
}

JsonReader JsonReader::element(std::string_view key, std::size_t index) {
  return {list(key).at(index), text_, file_, JsonText::join(place(key), index), call_};
}

std::vector<UnknownKey> JsonReader::unknown_keys(std::span<const std::string_view> known) const {
  std::vector<std::string_view> missing;
  for (const std::string_view key : known) {
    if (!has(key)) missing.push_back(key);
  }
  std::vector<UnknownKey> unknown;
  for (const auto& member : *object_) {
    const std::string_view key = member.key();
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string_view meant = nearest_name(key, missing);
    unknown.push_back(
        {fmt::format("{}: is not a known key of this object{}", where(key),
                     meant.empty() ? fmt::format("; expected one of {}", fmt::join(known, ", "))
                                   : fmt::format("; did you mean \"{}\"?", meant)),
         meant});
  }
  return unknown;
}

void JsonReader::finish() const {
  for (const auto& member : *object_) {
    if (!asked_.contains(std::string_view(member.key())))
      refuse(member.key(), "is not a known key of this object");
  }
}

}  // namespace vma
