#pragma once

#include "lab/generate/output_forecast.hpp"
#include "lab/generate/trace_parameters.hpp"
#include "lab/trace/event_order.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vma {

/// The weights of the model that requests use, if the parameter "weight_bytes" is not 0: a copy on
/// each of "gpus" GPUs, an object tagged "weights" that lives to the end. Then each request has a
/// GPU, since it reads that GPU's copy: the one with the fewest requests in progress by the times
/// of a machine without memory bottleneck. Prompts read the weights once. Each output token reads
/// them once for all requests that its GPU serves at the time of the first one, as an engine that
/// batches them does: a share of a pass for each. Not thread-safe.
class ServedModel {
 public:
  /// A GPU that serves a request; by default the router chooses it, and there are no weights.
  struct Server {
    TracePlace at;
    std::uint64_t weights = 0;  ///< Object.
    std::size_t batch = 1;      ///< Requests that it serves, with this one.
  };

  ServedModel(EventOrder& order, const TraceValues& values);

  /// Requires: requests in the order of their starts give the shares above; any order is valid.
  Server serve(Time start, Time end);
  /// An access that reads the weights `passes` times; null if there are none. The caller adds it.
  std::optional<TraceEvent> read(const Server& server, double passes) const;

 private:
  std::uint64_t weight_bytes_;
  std::vector<std::vector<Time>> ends_;  // Of the requests in progress, by GPU.
};

inline constexpr TraceParameter weights_parameter{
    "weight_bytes", 0, 0, 1e13, "size of the model's weights, a copy on each GPU; 0: left out"};
inline constexpr TraceParameter serving_gpus_parameter{
    "gpus", 4, 1, 9999, "GPUs that serve requests; without weights, the router chooses"};

/// One request to a language model with its own KV cache.
struct KvRequest {
  Time start{0};        ///< Processes the prompt from here to `first_token`,
  Time first_token{0};  ///< then generates the output tokens one by one until `end`.
  Time end{0};
  std::uint64_t prompt_tokens = 0, output_tokens = 0;
  std::uint32_t number = 0;  ///< Also of its object.
};

constexpr std::uint64_t tokens_max = 100'000'000;  ///< Per request; a larger number is a mistake in
                                                   ///< the file.

/// Adds the events of requests. The cache of each is one object for the prompt and output tokens,
/// tagged "kv", that lives from `start` to `end`. Each output token reads the cache as it is at
/// that time: o tokens after a prompt of c read o*c + o*(o-1)/2 tokens. Not thread-safe.
///
/// In a closed loop, a request has two tasks, and is their `request`. The first, which takes as
/// long as from `start` to `first_token`, writes the prompt's part. The second follows it and is
/// repeated for each output token: it takes its share of the time from `first_token` to `end`,
/// reads the cache, each time what the output tokens read on average, and writes its share of the
/// output's part. In an open loop, the accesses have these times: one write from `start` to
/// `first_token`; then, both until `end`, one read with as many passes over the cache as that
/// takes, and one write.
///
/// With "grow_tokens", the cache of a closed loop grows, as with paged attention: the prompt's part
/// is an object, and so is each part of so many output tokens, which is allocated when the one
/// before is full and has a task of its own. Without, its whole memory is there from the start.
///
/// With "hints", the output's tasks of a closed loop announce how often each part of the cache will
/// be read, and by when. A server does not know how long an output will be: it expects the mean
/// length of those that have ended, and nothing before one has. When the cache grows, it expects to
/// fill the part that it has allocated.
///
/// With "weight_bytes", requests read the weights of a `ServedModel`.
class KvRequests {
 public:
  /// "closed", "token_bytes", "grow_tokens", "weight_bytes", "gpus" and "hints" are parameters of
  /// the converters of requests, which end after "requests" of them.
  KvRequests(EventOrder& order, const TraceValues& values);

  /// Requires: the request has tokens.
  void add(const KvRequest& request);

 private:
  void add_open(const KvRequest& request, const ServedModel::Server& server);
  void add_closed(const KvRequest& request, const ServedModel::Server& server);
  void add_growing(const KvRequest& request, const ServedModel::Server& server);
  DeclaredTask prefill(const KvRequest& request, const ServedModel::Server& server);
  DeclaredTask decode(const KvRequest& request, const ServedModel::Server& server,
                      std::uint64_t tokens, const DeclaredTask& after);
  void announce(const KvRequest& request, std::uint64_t tokens);
  void announce(const KvRequest& request, std::span<const TraceEvent> cache);
  TraceEvent allocation(std::uint64_t object, std::uint64_t tokens, Time time) const;
  static TraceEvent free(std::uint64_t object);

  EventOrder* order_;
  ClosedLoop tasks_;
  ServedModel model_;
  std::uint64_t token_bytes_, grow_tokens_;
  std::uint64_t growths_ = 0;  // Objects so far.
  bool closed_, hints_;
  OutputForecast forecast_;
};

/// Sets the times from the assumed speed of the model: "prefill_tokens_s" and "token_us".
void set_times(KvRequest& request, const TraceValues& values);

inline constexpr TraceParameter token_bytes_parameter{
    "token_bytes", 131'072, 1, 1e9, "KV cache size per token (Llama-3-8B in bf16)"};
inline constexpr TraceParameter requests_parameter{
    "requests", 0, 0, 1e9, "requests to take, the first ones of the file; 0: all"};
inline constexpr TraceParameter grow_parameter{
    "grow_tokens", 0, 0, 1e8,
    "closed loops: output tokens by which the KV cache grows; 0: all its memory is there at once"};
inline constexpr TraceParameter token_time_parameter{"token_us", 30'000, 0, 1e7,
                                                     "time per output token"};
inline constexpr TraceParameter prefill_parameter{
    "prefill_tokens_s", 0, 0, 1e9, "prompt tokens processed per second; 0: all at once"};

}  // namespace vma
