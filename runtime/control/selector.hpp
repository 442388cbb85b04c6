#pragma once

#include <vma/place.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// One text that names allocations: an address, one of `selector_forms`, or a tag.
///
/// Text is a selector only if it is complete and its value is well-formed; everything else is a
/// tag, so that tags such as "layer:3" need no escape. A tag that is spelled like a selector or an
/// address is named by `tag:NAME`.
struct Selector {
  enum class Kind { address, tag, all, largest, oldest, newest, at, size, site };
  Kind kind = Kind::tag;
  std::string text;           ///< As it was given, for messages.
  std::uint64_t address = 0;  ///< Of any byte of the allocation.
  std::string tag;
  std::string site;         ///< A part of it.
  std::uint64_t count = 0;  ///< At least 1.
  Place at;
  std::uint64_t bytes_min = 0, bytes_max = UINT64_MAX;
  /// Why the text is a tag although it begins like a selector; empty otherwise.
  std::string why_tag;

  static Selector of_address(std::uint64_t address);
  static Selector of_tag(std::string_view tag);
};

/// Never refuses a text: what is neither an address nor a selector is a tag.
Selector parse_selector(std::string_view text);
/// Parses a whole number, decimal or with 0x. None for other text, and above 64 bits.
std::optional<std::uint64_t> parse_address(std::string_view text) noexcept;

/// How a selector is written, and what it selects; for help texts.
struct SelectorForm {
  std::string_view form, meaning;
};
std::span<const SelectorForm> selector_forms() noexcept;

/// What selectors see of an allocation.
struct Selectable {
  std::uint64_t address = 0, bytes = 0;
  std::uint64_t sequence = 0;  ///< Rises with each allocation.
  std::string_view tag;
  std::string_view site = {};
};

/// Whether a chunk of an allocation, given by its index, has memory at the place.
using HasChunkAt = std::function<bool(std::size_t, Place)>;

/// The indices of the allocations that at least one of the selectors selects, each once, ascending.
/// Of equal allocations those with lower addresses go first. Requires: `listed` is sorted by
/// address. Throws: Error{unknown_pointer} for an address in none of them, {invalid_argument} for
/// another selector that selects nothing; both tell what there is.
std::vector<std::size_t> resolve(std::span<const Selector> what, std::span<const Selectable> listed,
                                 const HasChunkAt& has_chunk_at, const char* call);

}  // namespace vma
