#include "unit/lab/import/convert_rig.hpp"

#include <fmt/format.h>

#include <utility>

namespace vma {

std::vector<ToldEvent> Converting::convert(const std::string& format, const std::string& name,
                                           std::string_view text, std::vector<std::string> values) {
  ConvertOptions options;
  options.format = format;
  options.input = folder_ / name;
  options.output = folder_ / "out.vtrace";
  options.values = std::move(values);
  options.seed = seed_;
  options.bad_lines_max = bad_lines_max_;
  write_text(options.input, text);
  const ConvertReport report = convert_trace(options);
  bad_.clear();
  for (const BadLine& line : report.bad.kept()) {
    bad_.push_back(fmt::format("{}: {}", line.line, line.reason));
  }
  return read_all(options.output);
}

}  // namespace vma
