#include "world.hpp"

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace fuzz {
namespace {

constexpr std::size_t source_bytes = std::size_t{8} << 20;

// Taken by the simulated driver for code with all kernels that it knows.
const std::uint32_t any_binary[16] = {0x464C457F};

std::string formatted(const char* format, va_list arguments) {
  char text[512];
  std::vsnprintf(text, sizeof text, format, arguments);
  return text;
}

}  // namespace

World::World(const Options& given, int number)
    : random(given.seed * 64 + static_cast<std::uint64_t>(number)),
      options(given),
      thread(number),
      source(source_bytes) {
  for (std::size_t at = 0; at < source.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.next();
    std::memcpy(&source[at], &word, sizeof word);
  }
}

void World::print(const std::string& line) {
  const std::string whole = "T" + std::to_string(thread) + " " + line + "\n";
  std::fwrite(whole.data(), 1, whole.size(), stdout);
}

CUresult World::note(CUresult result, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print(formatted(format, arguments) + " = " + std::to_string(static_cast<int>(result)));
  va_end(arguments);
  return result;
}

void World::say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print("  " + formatted(format, arguments));
  va_end(arguments);
}

std::string World::name_of(std::size_t buffer, std::size_t offset) const {
  return "b" + std::to_string(buffer) + "+" + std::to_string(offset);
}

// --- Contexts

void World::enter(std::size_t context) {
  CUcontext now = nullptr;
  driver.f_cuCtxGetCurrent(&now);
  if (now == contexts[context].handle) return;
  note(driver.f_cuCtxSetCurrent(contexts[context].handle), "cuCtxSetCurrent c%zu", context);
}

std::size_t World::add_context(CUcontext handle, int device, bool primary) {
  Context made;
  made.handle = handle;
  made.device = device;
  made.primary = primary;
  const std::size_t number = contexts.size();
  made.null_stream = streams.size();
  streams.push_back({nullptr, number, !options.per_thread, true, true});
  if (!options.per_thread) streams.push_back({CU_STREAM_PER_THREAD, number, true, true, true});
  note(driver.f_cuModuleLoadData(&made.module, any_binary), "cuModuleLoadData");
  note(driver.f_cuModuleGetFunction(&made.fill, made.module, "vmart_fill"), "cuModuleGetFunction");
  note(driver.f_cuModuleGetFunction(&made.add, made.module, "vmart_add"), "cuModuleGetFunction");
  contexts.push_back(made);
  return number;
}

void World::create_context() {
  const int device = static_cast<int>(random.below(2));
  CUcontext handle = nullptr;
  if (note(driver.f_cuCtxCreate(&handle, 0, device), "cuCtxCreate device %d", device) ==
      CUDA_SUCCESS) {
    add_context(handle, device, false);
    note(driver.f_cuCtxPopCurrent(&handle), "cuCtxPopCurrent");
  }
}

void World::destroy_context(std::size_t number) {
  Context& context = contexts[number];
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    if (graphs[i].alive && graphs[i].context == number) destroy_graph(*this, i);
  }
  for (std::size_t i = 0; i < graphs.size(); ++i) {  // Those that use its memory.
    const auto of_context = [&](std::size_t buffer) {
      return buffers[buffer].kind == Kind::plain && buffers[buffer].context == number;
    };
    if (graphs[i].alive && std::ranges::any_of(graphs[i].buffers, of_context)) {
      destroy_graph(*this, i);
    }
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    Buffer& buffer = buffers[i];
    if (!buffer.alive) continue;
    const bool its_memory = buffer.kind == Kind::plain && buffer.context == number;
    const bool its_work = buffer.last != Buffer::none && streams[buffer.last].context == number;
    if (its_memory && buffer.last != Buffer::none && !its_work) wait_for(buffer.last);
    if (its_memory || its_work) buffer.last = Buffer::none;
    if (its_memory) buffer.alive = false;
  }
  enter(number);
  note(driver.f_cuCtxSynchronize(), "cuCtxSynchronize");
  for (Stream& stream : streams) {
    if (stream.context == number) stream.alive = false;
  }
  context.alive = false;
  note(driver.f_cuCtxDestroy(context.handle), "cuCtxDestroy c%zu", number);
  enter(any_context());
}

std::size_t World::any_context(bool own) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    if (contexts[i].alive && (!own || alone() || !contexts[i].primary)) found.push_back(i);
  }
  return random.of(found);
}

// --- Streams

std::size_t World::create_stream(std::size_t context) {
  enter(context);
  Stream made;
  made.context = context;
  made.blocking = random.one_in(3);
  const unsigned flags = made.blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
  const bool urgent = random.one_in(3);
  const CUresult result = urgent ? driver.f_cuStreamCreateWithPriority(&made.handle, flags, -1)
                                 : driver.f_cuStreamCreate(&made.handle, flags);
  note(result, "cuStreamCreate%s s%zu flags %u", urgent ? "WithPriority" : "", streams.size(),
       flags);
  streams.push_back(made);
  return streams.size() - 1;
}

void World::destroy_stream(std::size_t number) {
  Stream& stream = streams[number];
  if (random.one_in(2)) {
    wait_for(number);
    for (Buffer& buffer : buffers) {
      if (buffer.last == number) buffer.last = Buffer::none;
    }
  }
  stream.alive = false;  // Its work goes on.
  stale_streams.push_back(stream.handle);
  note(driver.f_cuStreamDestroy(stream.handle), "cuStreamDestroy s%zu", number);
}

std::size_t World::any_stream(std::size_t context, bool capturing) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const Stream& stream = streams[i];
    if (stream.context != context || !stream.alive || (capturing && stream.built_in)) continue;
    found.push_back(i);
  }
  return found.empty() ? create_stream(context) : random.of(found);
}

void World::wait_for(std::size_t number) {
  const Stream& stream = streams[number];
  if (!contexts[stream.context].alive) return;
  enter(stream.context);
  if (!stream.alive || random.one_in(4)) {
    note(driver.f_cuCtxSynchronize(), "cuCtxSynchronize");
  } else if (random.one_in(3)) {
    CUevent event = nullptr;
    note(driver.f_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    note(driver.f_cuEventRecord(event, stream.handle), "cuEventRecord s%zu", number);
    note(driver.f_cuEventSynchronize(event), "cuEventSynchronize");
    note(driver.f_cuEventQuery(event), "cuEventQuery");
    note(driver.f_cuEventDestroy(event), "cuEventDestroy");
  } else {
    note(driver.f_cuStreamSynchronize(stream.handle), "cuStreamSynchronize s%zu", number);
    if (!stream.built_in) {
      note(driver.f_cuStreamQuery(stream.handle), "cuStreamQuery s%zu", number);
    }
  }
}

void World::order(const std::vector<std::size_t>& used, std::size_t number) {
  for (const std::size_t buffer : used) {
    const std::size_t before = buffers[buffer].last;
    if (before == Buffer::none || before == number) continue;
    const Stream& earlier = streams[before];
    const Stream& later = streams[number];
    // CUDA orders the legacy stream with blocking ones.
    const bool ordered = !options.per_thread && earlier.context == later.context && earlier.alive &&
                         earlier.blocking && later.blocking &&
                         (earlier.handle == nullptr || later.handle == nullptr);
    if (ordered && random.one_in(2)) continue;
    if (!earlier.alive || random.one_in(3)) {
      wait_for(before);
      continue;
    }
    CUevent event = nullptr;
    enter(earlier.context);
    note(driver.f_cuEventCreate(&event, random.one_in(2) ? CU_EVENT_DISABLE_TIMING : 0),
         "cuEventCreate");
    note(driver.f_cuEventRecord(event, earlier.handle), "cuEventRecord s%zu", before);
    enter(later.context);
    note(driver.f_cuStreamWaitEvent(later.handle, event, 0), "cuStreamWaitEvent s%zu", number);
    note(driver.f_cuEventDestroy(event), "cuEventDestroy");
  }
}

void World::used(const std::vector<std::size_t>& used, std::size_t stream) {
  for (const std::size_t buffer : used) buffers[buffer].last = stream;
}

void World::enqueue(const Piece& piece, std::size_t number) {
  if (!piece.run) return;
  order(piece.buffers, number);
  const Stream& stream = streams[number];
  enter(stream.context);
  note(piece.run(stream.handle), "%s on s%zu", piece.text.c_str(), number);
  used(piece.buffers, number);
}

// --- Buffers

std::size_t World::any_buffer(int device, bool local) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    if (buffer.alive && buffer.begin != 0 &&
        (buffer.device == device || (!local && buffer.everywhere))) {
      found.push_back(i);
    }
  }
  return found.empty() ? Buffer::none : random.of(found);
}

std::size_t World::add_buffer(Buffer made) {
  buffers.push_back(made);
  return buffers.size() - 1;
}

void World::fill_all(std::size_t number, std::size_t stream) {
  const Buffer buffer = buffers[number];
  const auto value = static_cast<unsigned char>(random.next());
  Piece piece;
  piece.buffers = {number};
  if (buffer.bytes <= source.size() && random.one_in(3)) {
    const std::size_t offset = random.below(source.size() - buffer.bytes + 1);
    piece.text = "cuMemcpyHtoDAsync " + name_of(number, 0) + " all";
    piece.run = [=, this](CUstream on) {
      return driver.f_cuMemcpyHtoDAsync(buffer.begin, &source[offset], buffer.bytes, on);
    };
  } else {
    piece.text = "cuMemsetD8Async " + name_of(number, 0) + " all";
    piece.run = [=](CUstream on) {
      return driver.f_cuMemsetD8Async(buffer.begin, value, buffer.bytes, on);
    };
  }
  enqueue(piece, stream);
}

void World::read(std::size_t number) {
  const Buffer& buffer = buffers[number];
  std::vector<std::size_t> near;
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    if (contexts[i].alive && (contexts[i].device == buffer.device || buffer.everywhere)) {
      near.push_back(i);
    }
  }
  const std::size_t context = random.of(near);
  std::vector<unsigned char> bytes(buffer.bytes);
  const bool now = random.one_in(3);
  const std::size_t stream = now ? contexts[context].null_stream : any_stream(context);
  order({number}, stream);
  enter(context);
  const std::string name = name_of(number, 0);
  if (now) {
    note(driver.f_cuMemcpyDtoH(bytes.data(), buffer.begin, buffer.bytes), "cuMemcpyDtoH %s",
         name.c_str());
  } else if (random.one_in(2)) {
    note(driver.f_cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(bytes.data()), buffer.begin,
                                buffer.bytes, streams[stream].handle),
         "cuMemcpyAsync to the host %s", name.c_str());
  } else {
    note(driver.f_cuMemcpyDtoHAsync(bytes.data(), buffer.begin, buffer.bytes,
                                    streams[stream].handle),
         "cuMemcpyDtoHAsync %s", name.c_str());
  }
  used({number}, stream);
  wait_for(stream);
  say("%s has %016llx", name.c_str(),
      static_cast<unsigned long long>(digest(bytes.data(), bytes.size())));
}

// --- All of it

namespace {

struct Choice {
  unsigned weight;
  void (*act)(World&);
};

void use_contexts(World& world) {
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < world.contexts.size(); ++i) {
    if (world.contexts[i].alive && !world.contexts[i].primary) own.push_back(i);
  }
  if (own.size() > 1 && world.random.one_in(2)) return world.destroy_context(world.random.of(own));
  if (own.size() < 3) world.create_context();
}

void work(World& world) {
  const std::size_t context = world.any_context();
  const std::size_t stream = world.any_stream(context);
  const std::size_t pieces = 1 + world.random.below(4);
  // So that there is work while memory moves.
  if (world.random.one_in(2)) world.enqueue(wait_a_while(world), stream);
  for (std::size_t i = 0; i < pieces; ++i) {
    world.enqueue(any_piece(world, context, false), stream);
  }
}

void read_some(World& world) {
  const std::size_t buffer = world.any_buffer(static_cast<int>(world.random.below(2)), true);
  if (buffer != Buffer::none) world.read(buffer);
}

const std::vector<Choice> choices = {{12, allocate}, {7, free_some},     {40, work},
                                     {8, copy_now},  {12, read_some},    {8, ask},
                                     {6, misuse},    {8, use_streams},   {12, use_graphs},
                                     {8, use_pools}, {10, use_mappings}, {2, use_contexts}};

}  // namespace

void World::play() {
  for (int device = 0; device < 2; ++device) {
    CUcontext handle = nullptr;
    note(driver.f_cuDevicePrimaryCtxRetain(&handle, device), "cuDevicePrimaryCtxRetain %d", device);
    note(driver.f_cuCtxSetCurrent(handle), "cuCtxSetCurrent");
    add_context(handle, device, true);
  }
  if (!alone() || random.one_in(2)) create_context();
  unsigned total = 0;
  for (const Choice& choice : choices) total += choice.weight;
  for (int call = 0; call < options.calls; ++call) {
    std::size_t chosen = random.below(total);
    for (const Choice& choice : choices) {
      if (chosen < choice.weight) {
        choice.act(*this);
        break;
      }
      chosen -= choice.weight;
    }
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].alive && buffers[i].begin != 0) read(i);
  }
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    if (graphs[i].alive) destroy_graph(*this, i);
  }
  end_mappings(*this);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].alive && random.one_in(2)) free_buffer(*this, i);
  }
  say("the end");
}

std::uint64_t digest(const unsigned char* bytes, std::size_t count) {
  std::uint64_t sum = count;
  std::size_t at = 0;
  for (; at + sizeof sum <= count; at += sizeof sum) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, sizeof word);
    sum = (sum ^ word) * 0x9E3779B97F4A7C15;
    sum ^= sum >> 29;
  }
  for (; at < count; ++at) sum = (sum ^ bytes[at]) * 0x9E3779B97F4A7C15;
  return sum;
}

std::size_t any_size(Random& random) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  const std::vector<std::size_t> sizes = {1,           100,     4096,        65536,       mib,
                                          2 * mib - 1, 2 * mib, 2 * mib + 1, 2 * mib + 8, 3 * mib,
                                          4 * mib,     4 * mib, 5 * mib + 3, 6 * mib};
  return random.of(sizes);
}

void work_a_while(void* nanoseconds) {
  using Clock = std::chrono::steady_clock;
  const std::chrono::nanoseconds long_enough(reinterpret_cast<std::uintptr_t>(nanoseconds));
  const auto end = Clock::now() + long_enough;
  while (Clock::now() < end) {
  }
}

}  // namespace fuzz
