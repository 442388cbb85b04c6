#include "model/user.hpp"

#include "support/test_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>

namespace vma {
namespace {

constexpr std::uint64_t word_bytes = sizeof(std::uint64_t);

std::byte* at(void* pointer, std::uint64_t offset) {
  return static_cast<std::byte*>(pointer) + offset;
}

}  // namespace

bool User::reaches(int gpu, const UserBlock& block, Range bytes) {
  for (std::uint64_t slot = bytes.begin / block.chunk_bytes;
       slot <= (bytes.begin + bytes.size - 1) / block.chunk_bytes; ++slot) {
    if (!world_.topology().reaches(DeviceId{gpu}, block.places[slot])) return false;
  }
  return true;
}

void User::wait_for(UserBlock& block) {
  if (block.busy >= 0) runtime().synchronize(streams_[static_cast<std::size_t>(block.busy)]);
  block.busy = -1;
}

/// Fresh memory has arbitrary contents, so all of it is written, by the CPU or by a kernel.
void User::fill(UserBlock& block) {
  const std::uint64_t seed = ++written_ << 32 | static_cast<std::uint64_t>(number_) << 28;
  for (std::uint64_t i = 0; i < block.words.size(); ++i) block.words[i] = seed + i;
  const int gpu = static_cast<int>(draw(streams_.size()));
  if (draw(2) == 0 || !reaches(gpu, block, {0, block.size_bytes()})) {
    return runtime().write(block.pointer, block.bytes());
  }
  runtime().launch(streams_[static_cast<std::size_t>(gpu)], fill_kernel(), {}, {},
                   KernelArguments::of(block.pointer, block.words.size(), seed));
  block.busy = gpu;
}

void User::write(UserBlock& block, Range range) {
  wait_for(block);
  const std::span<std::byte> bytes = block.bytes().subspan(range.begin, range.size);
  const std::uint64_t seed = ++written_;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(seed + i * 7);
  runtime().write(at(block.pointer, range.begin), bytes);
}

void User::check(UserBlock& block, Range range) {
  wait_for(block);
  std::vector<std::byte> bytes(range.size);
  runtime().read(at(block.pointer, range.begin), bytes);
  const std::span<std::byte> expected = block.bytes().subspan(range.begin, range.size);
  const auto [wrong, right] = std::ranges::mismatch(bytes, expected);
  if (wrong == bytes.end()) return;
  throw Mismatch(fmt::format("byte {} of {} is {:#x}, the model has {:#x}",
                             range.begin + static_cast<std::uint64_t>(wrong - bytes.begin()),
                             fmt::ptr(block.pointer), static_cast<int>(*wrong),
                             static_cast<int>(*right)));
}

void User::check_all() {
  for (auto& [age, block] : blocks_) {
    check(block, {0, block.size_bytes()});
    check_places(block);
  }
}

/// `where` covers the whole size, in order, with adjacent runs at one place merged, and agrees with
/// the model.
void User::check_places(const UserBlock& block) {
  std::uint64_t offset = 0;
  Place before;
  const std::uint64_t inside = draw(block.size_bytes());
  for (const Extent& extent : runtime().where(at(block.pointer, inside))) {
    if (extent.offset != offset || extent.bytes == 0 || (offset > 0 && extent.at == before)) {
      throw Mismatch(
          fmt::format("extents of {} do not follow each other", fmt::ptr(block.pointer)));
    }
    for (; offset < extent.offset + extent.bytes;) {
      const std::size_t slot = offset / block.chunk_bytes;
      if (slot >= block.places.size() || block.places[slot] != extent.at) {
        throw Mismatch(fmt::format("offset {} of {} is at {}, the model has another place", offset,
                                   fmt::ptr(block.pointer), to_string(extent.at)));
      }
      offset += block.slot_bytes(slot);
    }
    before = extent.at;
  }
  if (offset != block.size_bytes() || runtime().size(block.pointer) != offset) {
    throw Mismatch(fmt::format("where() covers {} of {} bytes", offset, block.size_bytes()));
  }
}

void User::use_kernel() {
  const auto chosen = draw_block();
  if (chosen == blocks_.end()) return;
  UserBlock& block = chosen->second;
  const Range words = draw_range(block.words.size());
  const Range bytes{words.begin * word_bytes, words.size * word_bytes};
  const int gpu = static_cast<int>(draw(streams_.size()));
  if (!reaches(gpu, block, bytes)) return;
  // Only the user orders streams with respect to each other.
  if (block.busy != gpu) wait_for(block);
  if (draw(3) == 0) return sum_by_kernel(block, gpu, words);
  add_by_kernel(block, gpu, words);
}

/// Launches several kernels in a row, sometimes behind a slow one, so that they are pending when
/// the next operation comes.
void User::add_by_kernel(UserBlock& block, int gpu, Range words) {
  const Stream stream = streams_[static_cast<std::size_t>(gpu)];
  if (draw(4) == 0) {
    const std::uint64_t nanoseconds = 1'000 * (1 + draw(200));
    runtime().launch(stream, spin_kernel(), {}, {}, KernelArguments::of(nanoseconds));
  }
  for (std::uint64_t launches = 1 + draw(3); launches > 0; --launches) {
    const std::uint64_t value = random_();
    runtime().launch(
        stream, add_kernel(), {}, {},
        KernelArguments::of(at(block.pointer, words.begin * word_bytes), words.size, value));
    for (std::uint64_t i = 0; i < words.size; ++i) block.words[words.begin + i] += value;
  }
  block.busy = gpu;
  if (draw(3) == 0) wait_for(block);
}

void User::sum_by_kernel(UserBlock& block, int gpu, Range words) {
  const Stream stream = streams_[static_cast<std::size_t>(gpu)];
  std::uint64_t sum = 0;
  runtime().write(result_, std::as_bytes(std::span(&sum, 1)));
  runtime().launch(
      stream, sum_kernel(), {}, {},
      KernelArguments::of(at(block.pointer, words.begin * word_bytes), words.size, result_));
  runtime().synchronize(stream);
  block.busy = -1;
  runtime().read(result_, std::as_writable_bytes(std::span(&sum, 1)));
  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i < words.size; ++i) expected += block.words[words.begin + i];
  if (sum == expected) return;
  throw Mismatch(fmt::format("a kernel of gpu({}) reads other words at {} than the model has", gpu,
                             fmt::ptr(block.pointer)));
}

void User::use_view() {
  const auto chosen = draw_block();
  if (chosen == blocks_.end()) return;
  UserBlock& block = chosen->second;
  wait_for(block);
  if (block.view) {
    store(block);
    if (draw(2) == 0) block.view.reset();
    return;
  }
  const Range range = draw_range(block.size_bytes());
  const auto look = [&, start = at(block.pointer, range.begin)] {
    block.view = runtime().host_view(start, range.size);
  };
  bool all_host = true;
  for (std::uint64_t slot = range.begin / block.chunk_bytes;
       slot <= (range.begin + range.size - 1) / block.chunk_bytes; ++slot) {
    all_host = all_host && block.places[slot].kind == Place::Kind::host;
  }
  if (!all_host) {
    return expect_refusal(ErrorKind::unsupported, "a view of what the CPU cannot reach", look);
  }
  look();
  store(block);
  if (draw(3) != 0) block.view.reset();
}

/// The CPU loads and stores through a view.
void User::store(UserBlock& block) {
  const std::span<std::byte> view = block.view->bytes();
  const std::uint64_t offset = static_cast<std::uint64_t>(view.data() - at(block.pointer, 0));
  const std::span<std::byte> model = block.bytes().subspan(offset, view.size());
  if (std::memcmp(view.data(), model.data(), view.size()) != 0) {
    throw Mismatch(fmt::format("a view of {} shows other bytes", fmt::ptr(block.pointer)));
  }
  const Range range = draw_range(view.size());
  const auto value = static_cast<std::byte>(++written_);
  std::ranges::fill(view.subspan(range.begin, range.size), value);
  std::ranges::fill(model.subspan(range.begin, range.size), value);
}

}  // namespace vma
