#include "lab/experiments/sweep.hpp"

#include <fmt/format.h>

#include <utility>

namespace vma {
namespace {

constexpr std::size_t policies_max = 10'000;

}  // namespace

std::string sweep_text(const boost::json::value& value) {
  if (const auto* const text = value.if_string()) return std::string(*text);
  if (const auto* const flag = value.if_bool()) return *flag ? "true" : "false";
  if (const auto* const whole = value.if_int64()) return fmt::format("{}", *whole);
  if (const auto* const whole = value.if_uint64()) return fmt::format("{}", *whole);
  if (const auto* const number = value.if_double()) return fmt::format("{}", *number);
  return {};
}

std::vector<std::string> read_sweep(JsonReader& policy) {
  std::vector<std::string> texts{policy.text("policy")};
  if (!policy.has("sweep")) return texts;
  const boost::json::object* const sweep = policy.at("sweep").if_object();
  if (sweep == nullptr) policy.refuse("sweep", "is not an object");
  for (const auto& member : *sweep) {
    const std::string_view name(member.key());
    const std::string key = join_path("sweep", name);
    const boost::json::array* const values = member.value().if_array();
    if (values == nullptr || values->empty()) policy.refuse(key, "is not a list of values");
    if (texts.size() > policies_max / values->size()) policy.refuse(key, "makes too many policies");
    std::vector<std::string> longer;
    for (const std::string& text : texts) {
      const char before = text.find(':') == std::string::npos ? ':' : ',';
      for (const boost::json::value& value : *values) {
        const std::string written = sweep_text(value);
        if (written.empty())
          policy.refuse(key, "contains something other than a number, string or boolean");
        longer.push_back(fmt::format("{}{}{}={}", text, before, name, written));
      }
    }
    texts = std::move(longer);
  }
  return texts;
}

}  // namespace vma
