#include "sim/chunk_file.hpp"

#include "base/units.hpp"
#include "driver/native_codes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace vma {
namespace {

constexpr std::uint64_t label_page_bytes = 4 * KiB;
constexpr std::uint64_t magic = 0x316b6e7568436d76;  // "vmChunk1" in memory.
constexpr int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW;

struct LabelPage {
  std::uint64_t magic = 0;
  std::uint64_t size_bytes = 0;
  std::int32_t on_gpu = 0;
  std::int32_t ordinal = 0;
};

/// Descriptors of chunks in this process.
std::atomic<std::uint64_t> open_files{0};

/// Descriptors and mappings are what simulated memory consists of: without any left, it is full.
Error full(const char* call, const char* what) {
  return driver_error(native_out_of_memory, call,
                      fmt::format("{}: {}", what, std::strerror(errno)));
}

void check_descriptors_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  if (open_files.load() < limit.rlim_cur / 2) return;
  // Full for now: chunks that are released make room.
  throw driver_error(native_out_of_memory, "cuMemCreate",
                     fmt::format("{} exportable chunks use half of the descriptors of this "
                                 "process; raise its limit (ulimit -n)",
                                 open_files.load()));
}

}  // namespace

ChunkFile::~ChunkFile() {
  if (bytes_ != nullptr) {
    --open_files;
    munmap(bytes_, label_.size_bytes);
  }
  if (descriptor_ >= 0) close(descriptor_);
}

void ChunkFile::map(const char* call) {
  void* bytes = mmap(nullptr, label_.size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                     descriptor_, 0);
  if (bytes == MAP_FAILED) throw full(call, "mmap");
  bytes_ = static_cast<std::byte*>(bytes);
  ++open_files;
}

std::unique_ptr<ChunkFile> ChunkFile::create(const Label& label) {
  constexpr const char* call = "cuMemCreate";
  check_descriptors_left();
  std::unique_ptr<ChunkFile> made(new ChunkFile(label));
  const int file = memfd_create("vmart-sim-chunk", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  made->descriptor_ = file;
  if (file < 0) throw full(call, "memfd_create");
  LabelPage page{magic, label.size_bytes, label.at.kind == Place::Kind::gpu ? 1 : 0,
                 label.at.ordinal};
  const auto end = static_cast<off_t>(label.size_bytes);
  if (ftruncate(file, end + static_cast<off_t>(label_page_bytes)) != 0 ||
      pwrite(file, &page, sizeof page, end) != sizeof page ||
      fcntl(file, F_ADD_SEALS, seals) != 0) {
    throw full(call, "memory of a chunk");
  }
  made->map(call);
  return made;
}

std::unique_ptr<ChunkFile> ChunkFile::open(int descriptor) {
  constexpr const char* call = "cuMemImportFromShareableHandle";
  const auto invalid = [descriptor, call] {
    return driver_error(native_invalid_value, call,
                        fmt::format("descriptor {} is no memory of a simulated chunk", descriptor));
  };
  // An unsealed file could be cut, and an access to it would then kill this process.
  const int sealed = fcntl(descriptor, F_GET_SEALS);
  struct stat status {};
  if (sealed < 0 || (sealed & seals) != seals || fstat(descriptor, &status) != 0) throw invalid();
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
  if (file_bytes <= label_page_bytes) throw invalid();
  const std::uint64_t size_bytes = file_bytes - label_page_bytes;
  LabelPage page;
  if (pread(descriptor, &page, sizeof page, static_cast<off_t>(size_bytes)) != sizeof page ||
      page.magic != magic || page.size_bytes != size_bytes) {
    throw invalid();
  }
  const Place at = page.on_gpu != 0 ? gpu(page.ordinal) : host(page.ordinal);
  std::unique_ptr<ChunkFile> made(new ChunkFile({at, size_bytes}));
  made->descriptor_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (made->descriptor_ < 0) throw full(call, "dup");
  made->map(call);
  return made;
}

int ChunkFile::duplicate() const {
  const int copy = fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) throw full("cuMemExportToShareableHandle", "dup");
  return copy;
}

void ChunkFile::show(void* address, bool writable) const {
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  if (mmap(address, label_.size_bytes, protection, MAP_SHARED | MAP_FIXED, descriptor_, 0) ==
      MAP_FAILED) {
    throw full("cuMemSetAccess", "mmap");
  }
}

}  // namespace vma
