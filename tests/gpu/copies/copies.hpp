#pragma once

#include <vma/vmart.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

/// What the copies of one kind name: memory that moves, and a part of it for each call.
struct Operands {
  char* source;  ///< In the first allocation; it has the pattern.
  char* target;  ///< At the same place in the second one.
  char* host;    ///< Pinned, as long as a call copies; it has the pattern of its own.
  vmart_stream stream;
};

/// What a call leaves behind, so that it can be checked.
enum class Leaves {
  source_in_target,
  host_in_target,
  value_in_target,
  source_in_host,
  nothing,
};

/// One kind of call. `call` returns the code of CUDA, 0 for success.
struct Kind {
  std::string name;
  Leaves leaves;
  std::function<int(const Operands&)> call;
};

constexpr std::size_t copied_bytes = std::size_t{64} << 10;
constexpr unsigned char filled_value = 0x5a;
// As rows, layers and rows of them.
constexpr std::size_t row_bytes = 1024, row_count = 64, layer_count = 4;
static_assert(row_bytes * row_count == copied_bytes && row_count % layer_count == 0);

/// By the driver's interface; the first also makes a context current for the calling thread.
int begin_driver();
std::vector<Kind> driver_kinds();
void* pinned_memory(std::size_t bytes);
vmart_stream new_stream();
int wait_for(vmart_stream stream);

/// By CUDA's runtime; none if the program is built without it.
std::vector<Kind> runtime_kinds();
