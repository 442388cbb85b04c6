#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace vma {

/// Parses a JSON text that people write. Its numbers are the nearest ones, where Boost.JSON's own
/// parser may be an ulp off. Throws: Error{invalid_argument} of `call` that names the file, the
/// line and the reason, also if a key occurs twice in one object.
boost::json::value parse_json(std::string_view text, const std::string& file,
                              const std::string& call);

/// Human-readable JSON. Numbers from 1e-9 to 1e15 have no exponent, unlike those of Boost.JSON:
/// 0.0000416578. A list or object that does not fit into `columns` gets a line per element; by
/// default, everything is on one line.
std::string readable_json(const boost::json::value& value, std::size_t columns = std::string::npos);

/// Joins "gpus[0]" and "name" to "gpus[0].name", "gpus" and 0 to "gpus[0]".
std::string join_path(std::string_view path, std::string_view key);
std::string join_path(std::string_view path, std::size_t index);

/// Reads the members of one JSON object and refuses unknown ones.
///
/// Every failure throws Error{invalid_argument} that names the file and the path of the key
/// ("gpus[0].memory_mib"). A reader borrows what it reads.
class JsonReader {
 public:
  /// Errors name `call` as the call that failed.
  JsonReader(const boost::json::value& value, std::string file, std::string path, std::string call);

  bool has(std::string_view key) const { return object_->contains(key); }
  /// Throws if the key is missing or has another type.
  const boost::json::value& at(std::string_view key);
  const boost::json::array& list(std::string_view key);
  std::string text(std::string_view key);
  bool flag(std::string_view key, bool otherwise);
  /// Returns a finite number within the bounds.
  double number(std::string_view key, double least, double most);
  std::int64_t integer(std::string_view key, std::int64_t least, std::int64_t most);
  std::int64_t integer_or(std::string_view key, std::int64_t otherwise, std::int64_t least,
                          std::int64_t most);
  JsonReader object(std::string_view key);
  JsonReader element(std::string_view key, std::size_t index);

  /// Such as "small.json: traces[1]", for errors that are detected later.
  std::string where(std::string_view key) const;
  /// Refuses members that have not been read.
  void finish() const;
  [[noreturn]] void refuse(std::string_view key, std::string_view reason) const;
  const std::string& file() const noexcept { return file_; }

 private:
  std::string place(std::string_view key) const;

  const boost::json::object* object_ = nullptr;
  std::string file_, path_, call_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace vma
