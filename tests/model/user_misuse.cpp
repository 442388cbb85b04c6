#include "model/user.hpp"

#include <fmt/format.h>

#include <exception>

namespace vma {

void User::expect_refusal(ErrorKind kind, const char* what, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.kind() != kind) throw;
    ++done_.refused;
    return;
  }
  throw Mismatch(fmt::format("{} was not refused", what));
}

void User::misuse() {
  const auto chosen = draw_block();
  if (chosen != blocks_.end()) return misuse_block(chosen->second);
  int mine = 0;
  expect_refusal(ErrorKind::unknown_pointer, "a free of the stack", [&] { runtime().free(&mine); });
  expect_refusal(ErrorKind::invalid_argument, "an unknown place",
                 [&] { runtime().alloc(1, gpu(17)); });
  expect_refusal(ErrorKind::invalid_argument, "no bytes", [&] { runtime().alloc(0, host(0)); });
}

void User::misuse_block(UserBlock& block) {
  std::byte* const start = static_cast<std::byte*>(block.pointer);
  const std::uint64_t end = block.size_bytes();
  std::byte bytes[2]{};
  switch (draw(5)) {
    case 0:
      return expect_refusal(ErrorKind::unknown_pointer, "a free of the middle",
                            [&] { runtime().free(start + 1 + draw(end - 1)); });
    case 1:
      return expect_refusal(ErrorKind::invalid_argument, "a range outside",
                            [&] { runtime().migrate(block.pointer, end, 1, gpu(0)); });
    case 2:
      return expect_refusal(ErrorKind::invalid_argument, "a place that does not exist",
                            [&] { runtime().migrate(block.pointer, host(9)); });
    case 3:
      return expect_refusal(ErrorKind::invalid_argument, "a read over the end",
                            [&] { runtime().read(start + end - 1, bytes); });
    default: break;
  }
  const int first = 0, last = static_cast<int>(streams_.size()) - 1;
  if (world_.topology().reaches(DeviceId{last}, gpu(first))) return;
  const Place reader = gpu(last);
  expect_refusal(ErrorKind::unreachable, "a reader that cannot reach",
                 [&] { runtime().alloc(1, gpu(first), std::span(&reader, 1)); });
}

void User::reserve() {
  const Place at = draw_location();
  const std::uint64_t chunk_bytes = world_.topology().granularity() * (1 + draw(4));
  const std::uint64_t bytes = chunk_bytes * (1 + draw(4));
  attempt(
      at, [&] { return bytes; }, [&] { runtime().reserve(at, bytes, chunk_bytes); }, true);
}

void User::trim() {
  const Place at = draw_location();
  const std::size_t bytes = runtime().trim(at);
  if (world_.plan().users > 1 || at.kind == Place::Kind::host) return;
  // Chunks of GPUs are never made ahead, so only leaving bytes may still be cached.
  const std::uint64_t cached = world_.memory().chunks().ledger().account(at).cached_bytes;
  if (cached <= world_.books().account(at).leaving_bytes) return;
  throw Mismatch(
      fmt::format("{} bytes were trimmed at {}, but {} are cached", bytes, to_string(at), cached));
}

}  // namespace vma
