// One process of NVIDIA's sample streamOrderedAllocationIPC, on vmart: told by lines on its input,
// each answered by one line. It ends with its input. VMART_DRIVER says where it runs.

#include "support/test_kernels.hpp"

#include <vma/runtime.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr Dim3 grid{32}, block{256};

class IpcPeer {
 public:
  std::string answer(std::istream& line) {
    std::string verb;
    line >> verb;
    try {
      if (verb == "open") return open(line);
      if (verb == "import") return import(line);
      if (verb == "step") return step(number(line));
      if (verb == "wrong") return wrong(number(line));
      if (verb == "free") return free();
      return "error no such verb";
    } catch (const Error& error) {
      return fmt::format("error {}", error.what());
    }
  }

 private:
  static std::uint64_t number(std::istream& line) {
    std::uint64_t value = 0;
    line >> value;
    return value;
  }

  /// open id words: on the GPU of that number.
  std::string open(std::istream& line) {
    id_ = number(line);
    words_ = number(line);
    stream_ = runtime_.make_stream(gpu(static_cast<int>(id_)));
    return "opened";
  }

  /// import path segment offset bytes
  std::string import(std::istream& line) {
    std::string path;
    ExportedPointer pointer;
    line >> path >> pointer.segment >> pointer.offset >> pointer.bytes;
    buffers_.push_back(runtime_.import_pointer(path, pointer, {.limit = std::chrono::minutes(1)}));
    return "imported";
  }

  /// Writes into the buffer of another process each time.
  std::string step(std::uint64_t step) {
    void* const buffer = buffers_[(step + id_) % buffers_.size()];
    runtime_.launch(stream_, fill_kernel(), grid, block,
                    KernelArguments::of(buffer, words_, pattern_of(id_)));
    runtime_.synchronize(stream_);
    return "done";
  }

  /// The words of its own buffer that are not the pattern of process `writer`.
  std::string wrong(std::uint64_t writer) {
    std::vector<std::uint64_t> seen(words_);
    runtime_.read(buffers_[id_], std::as_writable_bytes(std::span(seen)));
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < words_; ++i) wrong += seen[i] != pattern_of(writer) + i;
    return fmt::format("wrong {}", wrong);
  }

  std::string free() {
    for (void* const buffer : buffers_) runtime_.free_async(buffer, stream_);
    runtime_.synchronize(stream_);
    buffers_.clear();
    return "freed";
  }

  static std::uint64_t pattern_of(std::uint64_t id) { return (id + 1) << 32; }

  Runtime runtime_;
  std::uint64_t id_ = 0, words_ = 0;
  Stream stream_{};
  std::vector<void*> buffers_;  // By the process whose GPU they lie on.
};

}  // namespace
}  // namespace vma

int main() {
  vma::IpcPeer peer;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::cout << peer.answer(words) << std::endl;
  }
  return 0;
}
