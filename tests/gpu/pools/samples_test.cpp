// Goal: programs written for CUDA's stream-ordered allocator work on vmart's pools. Method: the
// steps and checks of NVIDIA's samples streamOrderedAllocation, streamOrderedAllocationP2P and
// graphMemoryNodes, which also run on CUDA's own pools. Not among them: nodes that are added to a
// graph by hand, and a block freed by a graph other than its own, which vmart's pools do not have.
#include "gpu/pools/pool_test.hpp"
#include "support/sample_kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <span>
#include <vector>

namespace vma {
namespace {

template <typename Subject>
class NvidiaSamples : public PoolTest<Subject> {
 protected:
  /// Those of the samples are 2^20.
  static constexpr int elements = std::is_same_v<Subject, VmartOnSimulation> ? 1 << 16 : 1 << 20;
  static constexpr std::size_t bytes = elements * sizeof(float);

  using PoolTest<Subject>::on;
  template <typename Element = float>
  Element* host_array() {
    return static_cast<Element*>(on().pinned(bytes));
  }
  float* random_array() {
    float* const all = host_array();
    for (int i = 0; i < elements; ++i) all[i] = static_cast<float>(i * 7919 % 65'536) / 65'536;
    return all;
  }
  float* allocate(Stream stream) { return static_cast<float*>(on().allocate(bytes, stream)); }
};
TYPED_TEST_SUITE(NvidiaSamples, PoolSubjects, PoolSubjectNames);

/// The relative error, as the sample computes it.
float error_of(std::span<const float> sum, std::span<const float> a, std::span<const float> b) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const float right = a[i] + b[i];
    error += std::pow(sum[i] - right, 2);
    size += std::pow(right, 2);
  }
  return static_cast<float>(std::sqrt(error / size));
}

/// The body of both parts of streamOrderedAllocation.
void add_in_stream_order(StreamAllocator& on, Stream stream, int count, const float* a,
                         const float* b, float* sum) {
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  void* const a_there = on.allocate(bytes, stream);
  void* const b_there = on.allocate(bytes, stream);
  void* const sum_there = on.allocate(bytes, stream);
  on.copy(stream, a_there, a, bytes);
  on.copy(stream, b_there, b, bytes);
  on.run(stream, add_vectors_kernel(), KernelArguments::of(a_there, b_there, sum_there, count));
  on.deallocate(a_there, stream);
  on.deallocate(b_there, stream);
  on.copy(stream, sum, sum_there, bytes);
  on.deallocate(sum_there, stream);
  on.synchronize(stream);
}

TYPED_TEST(NvidiaSamples, StreamOrderedAllocation) {
  StreamAllocator& on = this->on();
  const Stream stream = on.new_stream();
  const auto pool = on.default_pool(0);
  const float* const a = this->random_array();
  const float* const b = this->random_array();
  float* const sum = this->template host_array<float>();
  const auto error = [&] {
    constexpr auto count = static_cast<std::size_t>(NvidiaSamples<TypeParam>::elements);
    return error_of({sum, count}, {a, count}, {b, count});
  };

  add_in_stream_order(on, stream, this->elements, a, b, sum);
  EXPECT_LT(error(), 1e-6);
  EXPECT_EQ(pool->stats().reserved, 0u) << "the threshold is 0";

  pool->set_release_threshold(SIZE_MAX);
  std::fill_n(sum, this->elements, 0.0F);
  std::size_t reserved = 0;
  for (int i = 0; i < 20; ++i) {
    add_in_stream_order(on, stream, this->elements, a, b, sum);
    if (i == 0) reserved = pool->stats().reserved;
  }
  EXPECT_LT(error(), 1e-6);
  EXPECT_GE(reserved, 3 * this->bytes);
  EXPECT_EQ(pool->stats().reserved, reserved) << "nothing was allocated from the system again";
  pool->set_release_threshold(0);
  pool->trim(0);
}

TYPED_TEST(NvidiaSamples, StreamOrderedAllocationP2P) {
  StreamAllocator& on = this->on();
  if (on.gpus() < 2) GTEST_SKIP() << "SKIPPED: one GPU";
  const Stream first = on.new_stream(0), second = on.new_stream(1);
  int* const input = this->template host_array<int>();
  int* const output = this->template host_array<int>();
  for (int i = 0; i < this->elements; ++i) input[i] = i * 31 + 5;

  void* const source = on.allocate(this->bytes, first);
  on.copy(first, source, input, this->bytes);
  void* const target = on.allocate(this->bytes, second);
  on.default_pool(0)->allow_access(1);
  on.order(second, first);
  on.run(second, scale_kernel(), KernelArguments::of(source, target, int{this->elements}));
  on.copy(second, output, target, this->bytes);
  on.deallocate(source, second);
  on.deallocate(target, second);
  on.synchronize(second);
  int wrong = 0;
  for (int i = 0; i < this->elements; ++i) wrong += output[i] != 2 * input[i];
  EXPECT_EQ(wrong, 0);
}

/// The arrays of graphMemoryNodes.
struct Arrays {
  int count;
  std::size_t bytes;
  const float* input;
  float *square, *negated;

  /// The number of elements that are not right; clears them.
  int wrong() {
    int count_wrong = 0;
    for (int i = 0; i < count; ++i) {
      const float right = input[i] * input[i];
      count_wrong += square[i] != right || negated[i] != -right;
    }
    std::fill_n(square, count, 1e9F);
    std::fill_n(negated, count, 1e9F);
    return count_wrong;
  }
};

/// Work of two streams on blocks of one. Returns the last block, which is not freed if `keep`.
void* negate_squares(StreamAllocator& on, Stream stream, const Arrays& arrays, bool keep) {
  const Stream second = on.new_stream();
  void* const input = on.allocate(arrays.bytes, stream);
  void* const square = on.allocate(arrays.bytes, stream);
  on.copy(stream, input, arrays.input, arrays.bytes);
  on.run(stream, square_kernel(), KernelArguments::of(input, square, arrays.count));
  on.order(second, stream);
  on.copy(second, arrays.square, square, arrays.bytes);
  on.deallocate(input, stream);
  void* const negated = on.allocate(arrays.bytes, stream);
  EXPECT_EQ(negated, input) << "the same addresses again";
  on.run(stream, negate_kernel(), KernelArguments::of(square, negated, arrays.count));
  on.order(second, stream);
  on.copy(stream, arrays.negated, negated, arrays.bytes);
  if (!keep) on.deallocate(negated, stream);
  on.deallocate(square, second);
  on.order(stream, second);
  return negated;
}

TYPED_TEST(NvidiaSamples, GraphMemoryNodes) {
  StreamAllocator& on = this->on();
  const Stream stream = on.new_stream();
  Arrays arrays{this->elements, this->bytes, this->random_array(),
                this->template host_array<float>(), this->template host_array<float>()};
  negate_squares(on, stream, arrays, false);
  on.synchronize(stream);
  EXPECT_EQ(arrays.wrong(), 0) << "in a stream";

  const auto capture = [&](bool keep) {
    const Stream own = on.new_stream();
    on.begin_capture(own);
    void* const block = negate_squares(on, own, arrays, keep);
    return std::pair(on.end_capture(own), block);
  };
  const auto [whole, gone] = capture(false);
  on.launch(stream, whole);
  on.synchronize(stream);
  EXPECT_EQ(arrays.wrong(), 0) << "in a captured graph";
  on.destroy(whole);

  const auto [graph, left] = capture(true);
  float* const seen = this->template host_array<float>();
  const auto look = [&] {  // Outside the graph, before the block is freed.
    on.copy(stream, seen, left, this->bytes);
  };
  const auto saw = [&] { return std::equal(seen, seen + arrays.count, arrays.negated); };
  on.launch(stream, graph);
  look();
  on.synchronize(stream);
  on.free(left);
  EXPECT_TRUE(saw());
  EXPECT_EQ(arrays.wrong(), 0) << "freed by an ordinary free";

  on.launch(stream, graph);
  look();
  on.deallocate(left, stream);
  on.synchronize(stream);
  EXPECT_TRUE(saw());
  EXPECT_EQ(arrays.wrong(), 0) << "freed in order, outside the graph";
  on.destroy(graph);
  on.trim_graphs(0);
}

}  // namespace
}  // namespace vma
