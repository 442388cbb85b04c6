#include "support/drivers/permitted_driver.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <utility>

namespace vma {
namespace {

constexpr std::size_t violations_max = 256;

enum class Permission { anywhere, own_contexts, nowhere };

Permission permission_of(Call call) {
  switch (call) {
    case Call::map:
    case Call::unmap:
    case Call::grant:
    case Call::access:
    case Call::retain_handle:
    case Call::address_range:
    case Call::pointer_info:
    case Call::device_info:
    case Call::can_access_peer:
    case Call::link_info:
    case Call::granularity:
    case Call::context_active:
    case Call::current_context:
    case Call::set_current_context:
    case Call::context_device:
    case Call::context_id:
    case Call::stream_context:
    case Call::stream_id:
    case Call::stream_kind:
    case Call::is_capturing:
    case Call::stream_now:
    case Call::query_stream:
    case Call::wait_stream:
    case Call::query_event:
    case Call::wait_event:
    case Call::batch:
    // By a thread for which nobody waits: it may return only when work goes on.
    case Call::create_own_context:
    case Call::free_bytes:
    case Call::suspend:
    case Call::suspend_everything:
    case Call::resume:
    case Call::stop: return Permission::anywhere;
    case Call::copy:
    case Call::fill:
    case Call::record:
    case Call::stream_wait_event:
    case Call::launch:
    case Call::launch_graph: return Permission::own_contexts;
    default: return Permission::nowhere;  // A call missing in this list must be examined first.
  }
}

thread_local int application_depth = 0;

}  // namespace

PermittedDriver::AsApplication::AsApplication() noexcept {
  ++application_depth;
}

PermittedDriver::AsApplication::~AsApplication() {
  --application_depth;
}

std::vector<std::string> PermittedDriver::violations() const {
  MutexLock lock(mutex_);
  return violations_;
}

void PermittedDriver::note_stopped(int change) noexcept {
  const int before = stopped_.fetch_add(change);
  VMART_CHECK(before + change >= 0, "each stop of work is resumed exactly once");
  InterceptDriver::note_stopped(change);
}

bool PermittedDriver::nobody_minds() const {
  return stopped_.load() == 0 || application_depth > 0;
}

void PermittedDriver::note(std::string violation) {
  violation += fmt::format(", gates closed: {}", stopped_.load());
  MutexLock lock(mutex_);
  if (violations_.size() < violations_max) violations_.push_back(std::move(violation));
}

void PermittedDriver::around(Call call, const std::function<void()>& body) {
  if (permission_of(call) == Permission::nowhere && !nobody_minds()) {
    note(std::string(to_string(call)));
  }
  body();
}

void PermittedDriver::look_at(Call call, ContextHandle context) {
  if (nobody_minds()) return;
  {
    MutexLock lock(mutex_);
    if (own_.contains(context)) return;
  }
  note(fmt::format("{} in context {:#x}", to_string(call), static_cast<std::uint64_t>(context)));
}

ContextHandle PermittedDriver::create_own_context(DeviceId device) {
  const ContextHandle made = InterceptDriver::create_own_context(device);
  MutexLock lock(mutex_);
  own_.insert(made);
  return made;
}

ContextHandle PermittedDriver::create_green_context(DeviceId device, int multiprocessors) {
  const ContextHandle made = InterceptDriver::create_green_context(device, multiprocessors);
  if (!green_contexts_are_apart()) return made;
  MutexLock lock(mutex_);
  own_.insert(made);
  return made;
}

void PermittedDriver::destroy_context(ContextHandle context) {
  InterceptDriver::destroy_context(context);
  MutexLock lock(mutex_);
  own_.erase(context);
}

void PermittedDriver::stream_wait_event(BoundStream stream, EventHandle event) {
  look_at(Call::stream_wait_event, stream.context);
  InterceptDriver::stream_wait_event(stream, event);
}

void PermittedDriver::record(EventHandle event, BoundStream stream) {
  look_at(Call::record, stream.context);
  InterceptDriver::record(event, stream);
}

void PermittedDriver::copy(BoundStream stream, Address target, Address source,
                           std::uint64_t size_bytes) {
  look_at(Call::copy, stream.context);
  InterceptDriver::copy(stream, target, source, size_bytes);
}

void PermittedDriver::fill(BoundStream stream, Address begin, std::byte value,
                           std::uint64_t size_bytes) {
  look_at(Call::fill, stream.context);
  InterceptDriver::fill(stream, begin, value, size_bytes);
}

void PermittedDriver::launch(BoundStream stream, KernelHandle kernel, LaunchShape shape,
                             const KernelArguments& arguments) {
  look_at(Call::launch, stream.context);
  InterceptDriver::launch(stream, kernel, shape, arguments);
}

void PermittedDriver::launch_graph(BoundStream stream, ExecGraphHandle graph) {
  look_at(Call::launch_graph, stream.context);
  InterceptDriver::launch_graph(stream, graph);
}

}  // namespace vma
