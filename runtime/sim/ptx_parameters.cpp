#include "sim/ptx_parameters.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>

namespace vma {
namespace {

constexpr std::string_view blanks = " \t\r\n";
// The largest parameter list of a launch, in bytes.
constexpr std::size_t array_elements_max = 32764;

/// Cuts the next word off the front of the text; empty at its end.
std::string_view take_word(std::string_view& text) {
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return text = {};
  text.remove_prefix(begin);
  const std::string_view word = text.substr(0, text.find_first_of(blanks));
  text.remove_prefix(word.size());
  return word;
}

/// Empty if the text is not a number from 1 to the maximum.
std::optional<std::size_t> number(std::string_view text, std::size_t max) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole && value > 0 && value <= max ? std::optional(value) : std::nullopt;
}

/// The size of a type such as ".u64".
std::optional<std::size_t> bytes_of_type(std::string_view word) {
  if (word.size() < 3 || word[0] != '.') return std::nullopt;
  const std::optional<std::size_t> bits = number(word.substr(2), 128);
  if (!bits || *bits % 8 != 0 || std::string_view("usfb").find(word[1]) == std::string_view::npos) {
    return std::nullopt;
  }
  return *bits / 8;
}

struct Declaration {
  std::size_t size_bytes = 0, alignment = 0;
};

/// Parses ".param .align 8 .b8 view[24]" or ".param .u64 .ptr .global .align 4 words".
std::optional<Declaration> declaration_of(std::string_view text) {
  if (take_word(text) != ".param") return std::nullopt;
  std::string_view word = take_word(text);
  std::optional<std::size_t> alignment;
  if (word == ".align") {
    alignment = number(take_word(text), 128);
    if (!alignment) return std::nullopt;
    word = take_word(text);
  }
  const std::optional<std::size_t> element = bytes_of_type(word);
  if (!element) return std::nullopt;
  // The last word. The words before it describe the memory that a pointer refers to.
  std::string_view name;
  for (word = take_word(text); !word.empty(); word = take_word(text)) name = word;
  if (name.empty() || name[0] == '.') return std::nullopt;
  std::size_t elements = 1;
  if (const std::size_t open = name.find('['); open != std::string_view::npos) {
    if (name.back() != ']') return std::nullopt;
    const auto count = number(name.substr(open + 1, name.size() - open - 2), array_elements_max);
    if (!count) return std::nullopt;
    elements = *count;
  }
  return Declaration{*element * elements, alignment.value_or(*element)};
}

/// The text between the parentheses after the entry's name; an empty text if the entry has none.
std::optional<std::string_view> list_of(std::string_view ptx, std::string_view entry) {
  constexpr std::string_view keyword = ".entry";
  for (std::size_t at = ptx.find(keyword); at != std::string_view::npos; at = ptx.find(keyword)) {
    ptx.remove_prefix(at + keyword.size());
    const std::size_t begin = ptx.find_first_not_of(blanks);
    if (begin == 0 || begin == std::string_view::npos) continue;
    ptx.remove_prefix(begin);
    const std::string_view name = ptx.substr(0, ptx.find_first_of(" \t\r\n({"));
    if (name != entry) continue;
    ptx.remove_prefix(name.size());
    const std::size_t open = ptx.find_first_not_of(blanks);
    if (open == std::string_view::npos || ptx[open] != '(') return std::string_view{};
    const std::size_t close = ptx.find(')', open);
    if (close == std::string_view::npos) return std::nullopt;
    return ptx.substr(open + 1, close - open - 1);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<ParameterInfo>> ptx_parameters(std::string_view ptx,
                                                         std::string_view entry) {
  const std::optional<std::string_view> list = list_of(ptx, entry);
  if (!list) return std::nullopt;
  std::vector<ParameterInfo> parameters;
  if (list->find_first_not_of(blanks) == std::string_view::npos) return parameters;
  std::size_t end = 0;
  for (std::size_t begin = 0; begin <= list->size();) {
    const std::size_t comma = std::min(list->find(',', begin), list->size());
    const auto declared = declaration_of(list->substr(begin, comma - begin));
    if (!declared) return std::nullopt;
    const std::size_t offset = (end + declared->alignment - 1) / declared->alignment;
    parameters.push_back({offset * declared->alignment, declared->size_bytes});
    end = parameters.back().offset_bytes + declared->size_bytes;
    begin = comma + 1;
  }
  return parameters;
}

}  // namespace vma
