// A user's first program, against the installed tree: memory keeps its address and its bytes while
// it moves, and an error leaves the library as a vma::Error.

#include <vma/vma.hpp>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <span>
#include <vector>

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "consumer: does not hold: %s\n", what);
  std::exit(1);
}

void move_and_read_back() {
  std::vector<unsigned> written(1 << 20), read(1 << 20);
  std::iota(written.begin(), written.end(), 7u);
  const std::span source(written);
  void* pointer = vma::alloc(source.size_bytes(), vma::gpu(0));
  vma::write(pointer, std::as_bytes(source));
  const vma::MigrationReport report = vma::migrate(pointer, vma::gpu(1));
  require(report.outcome == vma::Outcome::done && report.chunks_moved > 0, "the memory moved");
  for (const vma::Extent& extent : vma::where(pointer)) {
    require(extent.at == vma::gpu(1), "all of it lies on gpu(1)");
  }
  vma::read(pointer, std::as_writable_bytes(std::span(read)));
  require(read == written, "the bytes are the same");
  vma::free(pointer);
}

bool refuses_a_foreign_pointer() {
  int foreign = 0;
  try {
    vma::migrate(&foreign, vma::gpu(1));
  } catch (const vma::Error& error) {
    return error.kind() == vma::ErrorKind::unknown_pointer;
  }
  return false;
}

}  // namespace

int main() {
  move_and_read_back();
  require(refuses_a_foreign_pointer(), "a foreign pointer is refused");
  std::puts("consumer: the installed library works");
}
