#include "control/selector.hpp"

#include "base/environment.hpp"
#include "base/nearest_name.hpp"
#include "base/printable.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <numeric>
#include <utility>

namespace vma {
namespace {

using SelectorKind = Selector::Kind;

constexpr SelectorForm forms[] = {
    {"all", "all allocations"},
    {"largest:N", "the N largest"},
    {"oldest:N", "the N that were allocated first"},
    {"newest:N", "the N that were allocated last"},
    {"at:PLACE", "those with at least one chunk there, as at:gpu0"},
    {"size:MIN..MAX", "those of MIN to MAX bytes, as size:64MiB..1GiB, size:1GiB.., size:..64KiB"},
    {"site:TEXT", "those whose place of allocation contains the text, as site:train.py:12"},
    {"tag:NAME", "those with the tag, also if it looks like an address or a selector"},
};

std::optional<std::uint64_t> whole_number(std::string_view text, int base = 10) noexcept {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, code] = std::from_chars(text.data(), end, number, base);
  if (code != std::errc() || stopped != end) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> size_of(std::string_view text) {
  try {
    return parse_size(std::string(text), "size");
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Each reads what follows a prefix. Returns why it is malformed; empty if it is not.

std::string read_count(std::string_view value, Selector& selector) {
  selector.count = whole_number(value).value_or(0);
  if (selector.count > 0) return {};
  return fmt::format("\"{}\" is not a whole number from 1 to {}", value, UINT64_MAX);
}

std::string read_place(std::string_view value, Selector& selector) {
  try {
    selector.at = parse_place(std::string(value));
    return {};
  } catch (const Error&) {
    return fmt::format("\"{}\" is not a place; write gpu0 or host0", value);
  }
}

std::string read_sizes(std::string_view value, Selector& selector) {
  constexpr std::string_view sign = "..";
  const std::size_t middle = value.find(sign);
  if (middle == std::string_view::npos) {
    return fmt::format("\"{}\" is not a range; write MIN..MAX, MIN.. or ..MAX", value);
  }
  const std::string_view min = value.substr(0, middle), max = value.substr(middle + sign.size());
  if (min.empty() && max.empty()) return "the range has neither MIN nor MAX";
  for (const auto& [text, bytes] :
       {std::pair(min, &selector.bytes_min), std::pair(max, &selector.bytes_max)}) {
    if (text.empty()) continue;
    const auto size = size_of(text);
    if (!size) {
      return fmt::format("\"{}\" is not a size below 16 EiB; write 4096, 64MiB or 2GiB", text);
    }
    *bytes = *size;
  }
  if (selector.bytes_min <= selector.bytes_max) return {};
  return fmt::format("the range ends at {}, before it begins at {}", bytes_text(selector.bytes_max),
                     bytes_text(selector.bytes_min));
}

std::string read_tag(std::string_view value, Selector& selector) {
  selector.tag = value;
  return value.empty() ? "the tag is empty" : "";
}

std::string read_site(std::string_view value, Selector& selector) {
  selector.site = value;
  return value.empty() ? "the text is empty" : "";
}

struct Prefix {
  std::string_view text;
  SelectorKind kind;
  std::string (*read)(std::string_view value, Selector& selector);
};
constexpr Prefix prefixes[] = {
    {"largest:", SelectorKind::largest, read_count}, {"oldest:", SelectorKind::oldest, read_count},
    {"newest:", SelectorKind::newest, read_count},   {"at:", SelectorKind::at, read_place},
    {"size:", SelectorKind::size, read_sizes},       {"site:", SelectorKind::site, read_site},
    {"tag:", SelectorKind::tag, read_tag},
};

/// "; did you mean largest:?" for "larges:3". Empty if no prefix is near, or the text says that it
/// is a tag.
std::string suggestion(const Selector& tag) {
  const std::string_view text = tag.text;
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || tag.text != tag.tag) return {};
  std::vector<std::string_view> names;
  for (const Prefix& prefix : prefixes) names.push_back(prefix.text);
  const std::string_view near = nearest_name(text.substr(0, colon + 1), names);
  return near.empty() ? "" : fmt::format("; did you mean {}?", near);
}

std::string what_exists(std::span<const Selectable> listed) {
  if (listed.empty()) return "there are no allocations";
  const std::uint64_t largest = std::ranges::max_element(listed, {}, &Selectable::bytes)->bytes;
  if (listed.size() == 1) return "there is 1 allocation, of " + bytes_text(largest);
  return fmt::format("there are {} allocations, the largest of {}", listed.size(),
                     bytes_text(largest));
}

[[noreturn]] void refuse_nothing(const Selector& selector, std::span<const Selectable> listed,
                                 const char* call) {
  const std::string exists = what_exists(listed);
  if (selector.kind == SelectorKind::address) {
    throw Error(
        ErrorKind::unknown_pointer, call,
        fmt::format("{:#x} is not in an allocation of this runtime; {}", selector.address, exists));
  }
  std::string why = fmt::format("\"{}\" selects nothing", selector.text);
  if (selector.kind == SelectorKind::tag) {
    why = fmt::format("no allocation has the tag \"{}\"", selector.tag);
    why += selector.why_tag.empty() ? suggestion(selector)
                                    : ", which is no selector either: " + selector.why_tag;
  }
  throw Error(ErrorKind::invalid_argument, call, fmt::format("{}; {}", why, exists));
}

template <typename Matches>
std::vector<std::size_t> all_that(std::span<const Selectable> listed, Matches&& matches) {
  std::vector<std::size_t> found;
  for (std::size_t which = 0; which < listed.size(); ++which) {
    if (matches(which)) found.push_back(which);
  }
  return found;
}

/// The first `count` in the order of a member; of equal ones, those listed first.
template <typename Order>
std::vector<std::size_t> first_by(std::span<const Selectable> listed, std::uint64_t count,
                                  Order order, std::uint64_t Selectable::*member) {
  std::vector<std::size_t> ranked(listed.size());
  std::iota(ranked.begin(), ranked.end(), std::size_t{0});
  std::ranges::stable_sort(ranked, order, [&](std::size_t which) { return listed[which].*member; });
  if (ranked.size() > count) ranked.resize(count);
  return ranked;
}

std::vector<std::size_t> selected_by(const Selector& selector, std::span<const Selectable> listed,
                                     const HasChunkAt& has_chunk_at) {
  switch (selector.kind) {
    case SelectorKind::address: {
      const auto above =
          std::ranges::upper_bound(listed, selector.address, {}, &Selectable::address);
      if (above == listed.begin()) return {};
      const auto around = std::prev(above);
      if (selector.address - around->address >= around->bytes) return {};
      return {static_cast<std::size_t>(around - listed.begin())};
    }
    case SelectorKind::tag:
      return all_that(listed, [&](std::size_t each) { return listed[each].tag == selector.tag; });
    case SelectorKind::site:
      return all_that(listed, [&](std::size_t each) {
        return listed[each].site.find(selector.site) != std::string_view::npos;
      });
    case SelectorKind::all: return all_that(listed, [](std::size_t) { return true; });
    case SelectorKind::largest:
      return first_by(listed, selector.count, std::ranges::greater(), &Selectable::bytes);
    case SelectorKind::oldest:
      return first_by(listed, selector.count, std::ranges::less(), &Selectable::sequence);
    case SelectorKind::newest:
      return first_by(listed, selector.count, std::ranges::greater(), &Selectable::sequence);
    case SelectorKind::at:
      return all_that(listed, [&](std::size_t each) { return has_chunk_at(each, selector.at); });
    case SelectorKind::size:
      return all_that(listed, [&](std::size_t each) {
        return listed[each].bytes >= selector.bytes_min && listed[each].bytes <= selector.bytes_max;
      });
  }
  return {};
}

}  // namespace

Selector Selector::of_address(std::uint64_t address) {
  Selector selector;
  selector.kind = SelectorKind::address;
  selector.text = fmt::format("{:#x}", address);
  selector.address = address;
  return selector;
}

Selector Selector::of_tag(std::string_view tag) {
  Selector selector;
  selector.text = selector.tag = tag;
  return selector;
}

std::optional<std::uint64_t> parse_address(std::string_view text) noexcept {
  const bool prefixed = text.starts_with("0x") || text.starts_with("0X");
  return prefixed ? whole_number(text.substr(2), 16) : whole_number(text);
}

Selector parse_selector(std::string_view text) {
  if (const auto address = parse_address(text)) return Selector::of_address(*address);
  Selector selector = Selector::of_tag(text);
  if (text == "all") selector.kind = SelectorKind::all;
  for (const Prefix& prefix : prefixes) {
    if (!text.starts_with(prefix.text)) continue;
    Selector read;
    read.kind = prefix.kind;
    read.text = text;
    selector.why_tag = prefix.read(text.substr(prefix.text.size()), read);
    return selector.why_tag.empty() ? read : selector;
  }
  return selector;
}

std::span<const SelectorForm> selector_forms() noexcept {
  return forms;
}

std::vector<std::size_t> resolve(std::span<const Selector> what, std::span<const Selectable> listed,
                                 const HasChunkAt& has_chunk_at, const char* call) {
  std::vector<std::size_t> selected;
  for (const Selector& selector : what) {
    const auto found = selected_by(selector, listed, has_chunk_at);
    if (found.empty()) refuse_nothing(selector, listed, call);
    selected.insert(selected.end(), found.begin(), found.end());
  }
  std::ranges::sort(selected);
  const auto again = std::ranges::unique(selected);
  selected.erase(again.begin(), again.end());
  return selected;
}

}  // namespace vma
