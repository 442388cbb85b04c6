#include "machine/json_text.hpp"

#include "base/whole_file.hpp"

#include <vma/error.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/stream_parser.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

namespace vma {

/// Scans text that the parser has accepted as JSON, and records the position of every value.
class JsonText::Scan {
 public:
  explicit Scan(JsonText& owner) : text_(owner.text_), owner_(owner) {}

  /// For a member, `line` is the line of its key.
  void value(const std::string& path, std::size_t line = 0) {
    skip_space();
    if (line == 0) line = line_;
    const auto [place, is_new] = owner_.places_.try_emplace(path, Place{line, at_, at_});
    if (!is_new) owner_.refuse(line, path + ": appears twice");
    if (text_[at_] == '{') {
      object(path);
    } else if (text_[at_] == '[') {
      array(path);
    } else if (text_[at_] == '"') {
      string();
    } else {
      at_ = std::min(text_.find_first_of(",]} \t\r\n", at_), text_.size());
    }
    place->second.end = at_;
  }

 private:
  void object(const std::string& path) {
    for (++at_; more('}');) {
      const std::string inner = join(path, string());
      const std::size_t line = line_;
      skip_space();
      ++at_;  // The colon.
      value(inner, line);
    }
  }

  void array(const std::string& path) {
    std::size_t index = 0;
    for (++at_; more(']'); ++index) value(join(path, index));
  }

  /// Advances to the next member or element. Returns false at the end.
  bool more(char end) {
    skip_space();
    if (text_[at_] == ',') ++at_;
    skip_space();
    if (text_[at_] != end) return true;
    ++at_;
    return false;
  }

  std::string string() {
    const std::size_t begin = at_;
    for (++at_; text_[at_] != '"'; ++at_) at_ += text_[at_] == '\\' ? 1 : 0;
    ++at_;
    const std::string_view quoted = text_.substr(begin, at_ - begin);
    return std::string(boost::json::parse({quoted.data(), quoted.size()}).get_string());
  }

  void skip_space() {
    for (; at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) != nullptr; ++at_)
      line_ += text_[at_] == '\n' ? 1 : 0;
  }

  std::string_view text_;
  JsonText& owner_;
  std::size_t at_ = 0, line_ = 1;
};

JsonText::JsonText(std::string text, std::string file, std::string call)
    : text_(std::move(text)), file_(std::move(file)), call_(std::move(call)) {
  boost::json::stream_parser parser;
  boost::system::error_code failed;
  const std::size_t good = parser.write_some(text_.data(), text_.size(), failed);
  if (!failed && good < text_.size() &&
      text_.find_first_not_of(" \t\r\n", good) != std::string::npos) {
    failed = boost::json::error::extra_data;
  }
  if (!failed) parser.finish(failed);
  if (failed) {
    const auto lines = std::count(text_.begin(), text_.begin() + static_cast<long>(good), '\n');
    refuse(1 + static_cast<std::size_t>(lines), failed.message());
  }
  value_ = parser.release();
  Scan(*this).value("");
}

JsonText JsonText::load(const std::string& file, const std::string& call) {
  std::optional<std::string> text = read_file(file);
  if (!text) throw Error(ErrorKind::invalid_argument, call, file + ": cannot be read");
  return {*std::move(text), file, call};
}

std::size_t JsonText::line(std::string_view path) const {
  for (;;) {
    if (const auto found = places_.find(path); found != places_.end()) return found->second.line;
    const std::size_t cut = path.find_last_of(".[");
    path = cut == std::string_view::npos ? std::string_view() : path.substr(0, cut);
  }
}

std::string_view JsonText::written(std::string_view path) const {
  const auto found = places_.find(path);
  if (found == places_.end()) return {};
  const Place& place = found->second;
  return std::string_view(text_).substr(place.begin, place.end - place.begin);
}

std::optional<double> JsonText::number(std::string_view path) const {
  const std::string_view text = written(path);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

void JsonText::refuse(std::size_t line, std::string_view reason) const {
  throw Error(ErrorKind::invalid_argument, call_,
              fmt::format("{}: line {}: {}", file_, line, reason));
}

std::string JsonText::join(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

std::string JsonText::join(std::string_view path, std::size_t index) {
  return fmt::format("{}[{}]", path, index);
}

}  // namespace vma
