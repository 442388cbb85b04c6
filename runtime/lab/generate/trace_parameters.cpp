#include "lab/generate/trace_parameters.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace vma {
namespace {

[[noreturn]] void refuse(std::span<const TraceParameter> parameters, const std::string& why) {
  std::string text = why;
  if (!parameters.empty()) text += "; the parameters are\n" + describe_parameters(parameters);
  throw Error(ErrorKind::invalid_argument, "TraceValues", text);
}

}  // namespace

TraceValues::TraceValues(std::span<const TraceParameter> parameters,
                         std::span<const std::string> given) {
  for (const TraceParameter& parameter : parameters) {
    values_[parameter.name] = parameter.otherwise;
  }
  for (const std::string& text : given) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const auto found = std::find_if(parameters.begin(), parameters.end(),
                                    [&](const TraceParameter& one) { return one.name == name; });
    if (found == parameters.end())
      refuse(parameters, fmt::format("\"{}\" is not a parameter", name));
    const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    if (value.empty() || *end != '\0' || !(number >= found->least && number <= found->most) ||
        (found->whole && std::floor(number) != number)) {
      refuse(parameters,
             fmt::format("{}: \"{}\" is not a {} from {} to {}", name, value,
                         found->whole ? "whole number" : "number", found->least, found->most));
    }
    values_[found->name] = number;
  }
}

std::string TraceValues::text() const {
  std::string text;
  for (const auto& [name, value] : values_) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  }
  return text;
}

std::string describe_parameters(std::span<const TraceParameter> parameters) {
  std::string text;
  for (const TraceParameter& one : parameters) {
    text += fmt::format("  {}: {}, from {} to {}: {}\n", one.name, one.otherwise, one.least,
                        one.most, one.meaning);
  }
  return text;
}

}  // namespace vma
