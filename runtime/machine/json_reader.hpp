#pragma once

#include "machine/json_text.hpp"

#include <vma/error.hpp>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// An unknown key of a JSON object.
struct UnknownKey {
  std::string problem;     ///< Names the location, and the key that was probably meant.
  std::string_view meant;  ///< Empty if no known missing key is similar.
};

/// Reads the members of one JSON object and refuses unknown ones.
///
/// Every failure throws Error{invalid_argument} that names the file, the path of the key
/// ("gpus[0].memory_mib") and, for a `JsonText`, its line. A reader borrows what it reads.
class JsonReader {
 public:
  /// Errors name `call` as the call that failed.
  JsonReader(const boost::json::value& value, std::string file, std::string path,
             std::string call = "load_machine");
  /// Reads a whole file.
  explicit JsonReader(const JsonText& text);

  bool has(std::string_view key) const;
  /// Throws if the key is missing or has another type.
  const boost::json::value& at(std::string_view key);
  const boost::json::array& list(std::string_view key);
  std::string text(std::string_view key);
  bool flag(std::string_view key, bool otherwise);
  /// Returns a finite number within the bounds.
  double number(std::string_view key, double least, double most);
  double number_or(std::string_view key, double otherwise, double least, double most);
  std::int64_t integer(std::string_view key, std::int64_t least, std::int64_t most);
  std::int64_t integer_or(std::string_view key, std::int64_t otherwise, std::int64_t least,
                          std::int64_t most);
  JsonReader object(std::string_view key);
  JsonReader element(std::string_view key, std::size_t index);

  /// Such as "small.json: line 7: traces[1]", for errors that are detected later.
  std::string where(std::string_view key) const;
  /// The keys that are not among `known`. Unlike `finish`, does not refuse them.
  std::vector<UnknownKey> unknown_keys(std::span<const std::string_view> known) const;
  /// Refuses members that have not been read.
  void finish() const;
  [[noreturn]] void refuse(std::string_view key, std::string_view reason) const;
  const std::string& file() const noexcept { return file_; }

 private:
  JsonReader(const boost::json::value& value, const JsonText* text, std::string file,
             std::string path, std::string call);
  std::string place(std::string_view key) const;

  const boost::json::object* object_ = nullptr;
  const JsonText* text_ = nullptr;  // Null if lines are unknown.
  std::string file_, path_, call_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace vma
