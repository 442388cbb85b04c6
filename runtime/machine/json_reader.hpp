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
  std::string problem;     ///< With its location, and the key that was probably meant.
  std::string_view meant;  ///< Empty: no known missing key is near it.
};

/// Reads the members of one JSON object and refuses unknown ones.
///
/// Every failure throws Error{invalid_argument} that names the file, the path of the key
/// ("gpus[0].memory_mib") and, for a `JsonText`, its line. A reader borrows what it reads.
class JsonReader {
 public:
  /// `call` is the refusing call that its errors name.
  JsonReader(const boost::json::value& value, std::string file, std::string path,
             std::string call = "load_machine");
  /// The whole of a file.
  explicit JsonReader(const JsonText& text);

  bool has(std::string_view key) const;
  /// No requirements: a key that is missing or of another type throws.
  const boost::json::value& at(std::string_view key);
  const boost::json::array& list(std::string_view key);
  std::string text(std::string_view key);
  bool flag(std::string_view key, bool otherwise);
  /// Finite and between the bounds.
  double number(std::string_view key, double least, double most);
  double number_or(std::string_view key, double otherwise, double least, double most);
  std::int64_t integer(std::string_view key, std::int64_t least, std::int64_t most);
  std::int64_t integer_or(std::string_view key, std::int64_t otherwise, std::int64_t least,
                          std::int64_t most);
  JsonReader object(std::string_view key);
  JsonReader element(std::string_view key, std::size_t index);

  /// "small.json: line 7: traces[1]", for errors that are found later.
  std::string where(std::string_view key) const;
  /// The keys that are not among `known`, instead of refusing the first one of them.
  std::vector<UnknownKey> unknown_keys(std::span<const std::string_view> known) const;
  /// Refuses members that were not read.
  void finish() const;
  [[noreturn]] void refuse(std::string_view key, std::string_view reason) const;
  const std::string& file() const noexcept { return file_; }

 private:
  JsonReader(const boost::json::value& value, const JsonText* text, std::string file,
             std::string path, std::string call);
  std::string place(std::string_view key) const;

  const boost::json::object* object_ = nullptr;
  const JsonText* text_ = nullptr;  // Null: lines are unknown.
  std::string file_, path_, call_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace vma
