#include "lab/trace/trace_header.hpp"

#include "base/json.hpp"

#include <vma/error.hpp>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>

namespace vma {
namespace {

constexpr std::string_view version_key = "vmart_trace";

std::string text_or_none(JsonReader& json, std::string_view key) {
  return json.has(key) ? json.text(key) : std::string();
}

}  // namespace

static_assert(trace_version < 10, "all versions have one digit");

std::string trace_header_begin(unsigned version) {
  return fmt::format("{{\"{}\":{}", version_key, version);
}

std::string write_trace_header(const TraceHeader& header, unsigned version) {
  boost::json::object json;
  json[boost::json::string_view(version_key)] = version;
  const auto put = [&json](const char* key, const std::string& text) {
    if (!text.empty()) json[key] = text;
  };
  put("name", header.name);
  put("origin", header.origin);
  put("licence", header.licence);
  put("made", header.made);
  return boost::json::serialize(json);
}

bool is_trace_header(std::string_view line) noexcept {
  const std::size_t quote = line.find('"');
  return quote != std::string_view::npos && line.substr(quote + 1).starts_with(version_key);
}

TraceHeader read_trace_header(std::string_view json, const std::string& file) {
  boost::system::error_code failed;
  const boost::json::value value =
      boost::json::parse(boost::json::string_view(json.data(), json.size()), failed);
  if (failed) {
    throw Error(ErrorKind::invalid_argument, "read_trace_header",
                fmt::format("{}: the header: {}", file, failed.message()));
  }
  JsonReader reader(value, file, "", "read_trace_header");
  const auto version = reader.integer(version_key, 0, UINT32_MAX);
  if (version < trace_version_first || version > trace_version) {
    reader.refuse(version_key,
                  fmt::format("is {}, not {} to {}", version, trace_version_first, trace_version));
  }
  TraceHeader header;
  header.name = text_or_none(reader, "name");
  header.origin = text_or_none(reader, "origin");
  header.licence = text_or_none(reader, "licence");
  header.made = text_or_none(reader, "made");
  reader.finish();
  return header;
}

}  // namespace vma
