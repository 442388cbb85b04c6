// One process allocates memory and exports it; another one imports it, changes it and lets go of
// it. Both see the same bytes, without a copy. See docs/guide/sharing.md.
//
//     VMART_DRIVER=sim:h200x2 share_memory

#include <vma/vma.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace {

constexpr std::size_t words = 1024;

/// The other process: gets the path, adds one to each word.
int import_at(const std::string& path) {
  void* memory = vma::import_allocation(path);
  std::vector<std::uint64_t> values(words);
  vma::read(memory, std::as_writable_bytes(std::span(values)));
  for (std::uint64_t& value : values) ++value;
  vma::write(memory, std::as_bytes(std::span(values)));
  std::printf("imported at %p, on %s\n", memory, vma::to_string(vma::where(memory)[0].at).c_str());
  vma::free(memory);  // The memory itself belongs to the exporter.
  return 0;
}

int export_to(int pipe, pid_t other) {
  vma::AllocOptions options;
  options.exportable = true;  // Costs a little, so it is not the default.
  void* memory = vma::alloc(words * sizeof(std::uint64_t), vma::gpu(0), options);
  const std::vector<std::uint64_t> values(words, 41);
  vma::write(memory, std::as_bytes(std::span(values)));
  int failed = 0;
  {
    const vma::ExportedAllocation exported = vma::export_allocation(memory);
    std::printf("exported %p at %s\n", memory, exported.path().c_str());
    std::fflush(stdout);
    // Any way to pass a path will do.
    if (write(pipe, exported.path().data(), exported.path().size()) < 0) return 1;
    close(pipe);
    waitpid(other, &failed, 0);
  }
  std::vector<std::uint64_t> found(words);
  vma::read(memory, std::as_writable_bytes(std::span(found)));
  std::printf("the other process wrote %lu\n", static_cast<unsigned long>(found[words - 1]));
  vma::free(memory);
  return failed != 0 || found[words - 1] != 42 ? 1 : 0;
}

}  // namespace

int main() {
  int ends[2];
  if (pipe(ends) != 0) return 1;
  const pid_t child = fork();  // Before a runtime opens: each process needs one of its own.
  if (child < 0) return 1;
  try {
    if (child > 0) {
      close(ends[0]);
      return export_to(ends[1], child);
    }
    close(ends[1]);
    std::string path;
    char bytes[128];
    for (ssize_t size = 0; (size = read(ends[0], bytes, sizeof bytes)) > 0;)
      path.append(bytes, static_cast<std::size_t>(size));
    return import_at(path);
  } catch (const vma::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
