#include "lab/trace/bad_lines.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace vma {

BadLines::BadLines(std::string file, std::uint64_t most) : file_(std::move(file)), most_(most) {}

void BadLines::add(std::uint64_t line, std::string reason) {
  ++count_;
  if (count_ > most_) {
    std::string text = fmt::format("{}: line {}: {}", file_, line, reason);
    if (count_ > 1) text += fmt::format("; {} bad lines, at most {}", count_, most_);
    if (!kept_.empty()) {
      text += fmt::format("; the first is line {}: {}", kept_.front().line, kept_.front().reason);
    }
    throw Error(ErrorKind::invalid_argument, "read_lines", text);
  }
  if (kept_.size() < kept_max) kept_.push_back({line, std::move(reason)});
}

}  // namespace vma
