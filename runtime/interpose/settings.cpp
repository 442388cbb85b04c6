#include "interpose/settings.hpp"

#include "base/process_exit.hpp"
#include "interpose/process.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <initializer_list>

namespace vma::interpose {
namespace {

/// Empty if it is unset.
std::string_view variable(const char* name) noexcept {
  const char* const text = secure_getenv(name);
  return text != nullptr ? text : "";
}

std::size_t bytes_of(const char* name, std::size_t otherwise) noexcept {
  const std::string_view text = variable(name);
  if (text.empty()) return otherwise;
  std::size_t given = 0;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, given).ptr == end) return given;
  say("%s is \"%.*s\"; expected a number of bytes, so it counts as %zu", name,
      static_cast<int>(text.size()), text.data(), otherwise);
  return otherwise;
}

/// Compares the two, ignoring case.
bool is_word(std::string_view text, std::string_view word) noexcept {
  return std::ranges::equal(text, word, [](char each, char letter) {
    return (each >= 'A' && each <= 'Z' ? each - 'A' + 'a' : each) == letter;
  });
}

bool flag_of(const char* name, bool otherwise) noexcept {
  const std::string_view text = variable(name);
  if (text.empty()) return otherwise;
  const auto is_text = [text](std::string_view word) { return is_word(text, word); };
  if (std::ranges::any_of(std::initializer_list{"1", "yes", "on", "true"}, is_text)) return true;
  if (std::ranges::any_of(std::initializer_list{"0", "no", "off", "false"}, is_text)) return false;
  say("%s is \"%.*s\"; expected 1, yes, on, true or 0, no, off, false, so it counts as %d", name,
      static_cast<int>(text.size()), text.data(), otherwise ? 1 : 0);
  return otherwise;
}

Settings read() {
  Settings settings;
  settings.on = flag_of("VMART_RUN", true);
  settings.driver = variable("VMART_DRIVER");
  settings.run_version = variable("VMART_RUN_VERSION");
  settings.min_bytes = bytes_of("VMART_RUN_MIN_BYTES", settings.min_bytes);
  settings.site_bytes = bytes_of("VMART_RUN_SITE_BYTES", settings.site_bytes);
  settings.excluded = secure_getenv("VMART_RUN_EXCLUDE") != nullptr
                          ? variable("VMART_RUN_EXCLUDE")  // Also with no name.
                          : "libnccl,libnvshmem";          // They export what they allocate.
  settings.children = flag_of("VMART_RUN_CHILDREN", true);
  settings.pools = flag_of("VMART_RUN_POOLS", false);
  settings.capacity_is_set = !variable("VMART_CAPACITY").empty();
  settings.overcommit = flag_of("VMART_RUN_OVERCOMMIT", false);
  settings.vmm = flag_of("VMART_RUN_VMM", false);
  settings.uses_are_read = std::ranges::any_of(
      std::initializer_list<const char*>{"VMART_POLICY", "VMART_RECORD", "VMART_DECISIONS"},
      [](const char* name) { return !variable(name).empty() && variable(name) != "0"; });
  return settings;
}

/// Without memory for the texts, the program runs as if without vmart.
Settings read_or_off() noexcept try { return read(); } catch (const std::exception&) {
  Settings settings;
  settings.on = false;
  return settings;
}

}  // namespace

const Settings& Settings::get() noexcept {
  static Immortal<Settings> settings([] { return Settings(read_or_off()); });
  return *settings;
}

// --- Whether vmart takes part

namespace {

std::atomic<bool> aside = false;

}  // namespace

bool takes_part() noexcept {
  return Settings::get().on && !is_forked_child() && !aside.load(std::memory_order_relaxed);
}

void disable(const char* why) noexcept {
  if (!takes_part() || aside.exchange(true) || why == nullptr) return;
  say("disabled in this process, so the memory of this program does not move: %s", why);
}

bool is_excluded(const void* caller) noexcept {
  Dl_info info{};
  if (dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  const std::string_view path = info.dli_fname;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  for (std::string_view left = Settings::get().excluded; !left.empty();) {
    const std::size_t end = std::min(left.find(','), left.size());
    if (end > 0 && file.find(left.substr(0, end)) != std::string_view::npos) return true;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return false;
}

}  // namespace vma::interpose
