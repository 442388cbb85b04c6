#include "base/file_text.hpp"

#include <fstream>
#include <sstream>
#include <utility>

namespace vma {

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // Peeks first, because copying zero bytes sets a failure. For a folder, peeking fails.
  if (file && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad() || !text) return std::nullopt;
  return std::move(text).str();
}

}  // namespace vma
