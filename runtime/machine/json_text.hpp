#pragma once

#include <boost/json/value.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace vma {

/// A hand-written JSON file: its value, and the line of every place in it. Immutable.
class JsonText {
 public:
  /// Throws: Error{invalid_argument} of `call` that names the file, the line and the reason, also
  /// if a key occurs twice in one object.
  JsonText(std::string text, std::string file, std::string call);
  /// Reads the file. Throws the same errors, also if the file cannot be read.
  static JsonText load(const std::string& file, const std::string& call);

  const boost::json::value& value() const noexcept { return value_; }
  const std::string& text() const noexcept { return text_; }
  const std::string& file() const noexcept { return file_; }
  const std::string& call() const noexcept { return call_; }
  /// The line of a path such as "gpus[0].memory_mib", or of its innermost part that exists.
  std::size_t line(std::string_view path) const;
  /// The text of the value, because a JSON parser may be an ulp off. Empty if there is no value.
  std::string_view written(std::string_view path) const;
  /// The number, exactly as written; nothing if there is none.
  std::optional<double> number(std::string_view path) const;
  [[noreturn]] void refuse(std::size_t line, std::string_view reason) const;

  /// Joins "gpus[0]" and "name" to "gpus[0].name".
  static std::string join(std::string_view path, std::string_view key);
  static std::string join(std::string_view path, std::size_t index);

 private:
  class Scan;
  struct Place {
    std::size_t line = 0;            // Starts at 1. For a member, the line of its key.
    std::size_t begin = 0, end = 0;  // Position of the value in the text.
  };

  std::string text_, file_, call_;
  boost::json::value value_;
  std::map<std::string, Place, std::less<>> places_;  // By path.
};

}  // namespace vma
