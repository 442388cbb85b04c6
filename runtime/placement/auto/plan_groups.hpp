#pragma once

#include <vma/policy.hpp>

#include <cstddef>
#include <span>

namespace vma::inline v1 {

/// Calls `body` for each move of a plan together with the victims that make room for it, which
/// come before it.
template <typename Body>  // body(std::span<const Move>)
void for_each_group(const Plan& plan, Body&& body) {
  const std::span<const Move> moves = plan.moves();
  std::size_t first = 0;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    if (moves[i].victim && i + 1 < moves.size()) continue;
    body(moves.subspan(first, i + 1 - first));
    first = i + 1;
  }
}

}  // namespace vma::inline v1
