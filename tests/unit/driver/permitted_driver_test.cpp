// Goal: while a gate is closed, each call that could wait for the stopped work is recorded, and no
// other call. Method: every call once on a driver that does nothing, in a foreign context and in
// one of the runtime's own.

#include "support/drivers/permitted_driver.hpp"

#include "unit/driver/counting_driver.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <utility>

namespace vma {
namespace {

struct PermittedDriverTest : testing::Test {
  /// The violations that a call adds while one gate is closed.
  std::vector<std::string> noted_of(const std::function<void()>& call) {
    const std::size_t before = permitted.violations().size();
    permitted.note_stopped(1);
    call();
    permitted.note_stopped(-1);
    std::vector<std::string> all = permitted.violations();
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(before));
    return all;
  }

  CountingDriver inner;
  PermittedDriver permitted{inner};
  const BoundStream foreign{ContextHandle{0x50}, StreamHandle{7}};
};

using Calls = std::map<Call, std::function<void()>>;

/// The calls that a switch and the watching of a gate need, and those that the check of own
/// contexts makes on a thread for which nobody waits.
Calls permitted_calls(Driver& d, BoundStream stream) {
  return {
      {Call::map, [&d] { d.map({}, 0, {}); }},
      {Call::unmap, [&d] { d.unmap({}, 0); }},
      {Call::grant, [&d] { d.grant({}, 0, {}); }},
      {Call::access, [&d] { d.access({}, {}); }},
      {Call::retain_handle, [&d] { d.retain_handle({}); }},
      {Call::address_range, [&d] { d.address_range({}); }},
      {Call::pointer_info, [&d] { d.pointer_info({}); }},
      {Call::device_info, [&d] { d.device_info({}); }},
      {Call::can_access_peer, [&d] { d.can_access_peer({}, {}); }},
      {Call::link_info, [&d] { d.link_info({}, {}); }},
      {Call::granularity, [&d] { d.granularity({}); }},
      {Call::context_active, [&d] { d.context_active({}); }},
      {Call::current_context, [&d] { d.current_context(); }},
      {Call::set_current_context, [&d] { d.set_current_context({}); }},
      {Call::context_device, [&d] { d.context_device({}); }},
      {Call::context_id, [&d] { d.context_id({}); }},
      {Call::stream_context, [&d, stream] { d.stream_context(stream.handle); }},
      {Call::stream_id, [&d, stream] { d.stream_id(stream); }},
      {Call::stream_kind, [&d, stream] { d.stream_kind(stream); }},
      {Call::is_capturing, [&d, stream] { d.is_capturing(stream); }},
      {Call::stream_now, [&d, stream] { d.stream_now(stream.handle, 0); }},
      {Call::query_stream, [&d, stream] { d.query_stream(stream); }},
      {Call::wait_stream, [&d, stream] { d.wait_stream(stream, {}); }},
      {Call::query_event, [&d] { d.query_event({}); }},
      {Call::wait_event, [&d] { d.wait_event({}, {}); }},
      {Call::batch, [&d, stream] { d.batch(stream, {}); }},
      {Call::stop, [&d, stream] { d.stop(stream, {}, {}); }},
      {Call::free_bytes, [&d] { d.free_bytes({}); }},
      {Call::create_own_context, [&d] { d.create_own_context({}); }},
      {Call::suspend, [&d] { d.suspend({}); }},
      {Call::suspend_everything, [&d] { d.suspend_everything({}); }},
      {Call::resume, [&d] { d.resume({}); }},
  };
}

Calls work_calls(Driver& d, BoundStream stream) {
  return {
      {Call::copy, [&d, stream] { d.copy(stream, {}, {}, 0); }},
      {Call::fill, [&d, stream] { d.fill(stream, {}, {}, 0); }},
      {Call::record, [&d, stream] { d.record({}, stream); }},
      {Call::stream_wait_event, [&d, stream] { d.stream_wait_event(stream, {}); }},
      {Call::launch, [&d, stream] { d.launch(stream, {}, {}, {}); }},
      {Call::launch_graph, [&d, stream] { d.launch_graph(stream, {}); }},
  };
}

Calls forbidden_calls(Driver& d, BoundStream stream) {
  return {
      {Call::host_node_count, [&d] { d.host_node_count(); }},
      {Call::reserve, [&d] { d.reserve(0, 0); }},
      {Call::unreserve, [&d] { d.unreserve({}, 0); }},
      {Call::create, [&d] { d.create({}, 0); }},
      {Call::export_types, [&d] { d.export_types({}); }},
      {Call::create_exportable, [&d] { d.create_exportable({}, 0, {}); }},
      {Call::export_chunk, [&d] { d.export_chunk({}); }},
      {Call::import_chunk, [&d] { d.import_chunk(-1); }},
      {Call::release, [&d] { d.release({}); }},
      {Call::retain_primary, [&d] { d.retain_primary({}); }},
      {Call::release_primary, [&d] { d.release_primary({}); }},
      {Call::create_context, [&d] { d.create_context({}); }},
      {Call::create_green_context, [&d] { d.create_green_context({}, 8); }},
      {Call::destroy_context, [&d] { d.destroy_context({}); }},
      {Call::synchronize_context, [&d] { d.synchronize_context({}); }},
      {Call::record_context, [&d] { d.record_context({}, {}); }},
      {Call::hold_context, [&d] { d.hold_context({}, {}); }},
      {Call::create_stream, [&d] { d.create_stream({}, {}); }},
      {Call::destroy_stream, [&d, stream] { d.destroy_stream(stream); }},
      {Call::create_event, [&d] { d.create_event({}); }},
      {Call::destroy_event, [&d] { d.destroy_event({}); }},
      {Call::load_kernel, [&d] { d.load_kernel({}, {}); }},
      {Call::load_kernels, [&d] { d.load_kernels({}, {}, {}); }},
      {Call::unload_kernel, [&d] { d.unload_kernel({}); }},
      {Call::kernel_parameters, [&d] { d.kernel_parameters(nullptr); }},
      {Call::has_parameters, [&d] { d.has_parameters(nullptr, {}); }},
      {Call::begin_capture, [&d, stream] { d.begin_capture(stream, {}); }},
      {Call::end_capture, [&d, stream] { d.end_capture(stream); }},
      {Call::at_graph_end, [&d, stream] { d.at_graph_end(stream, {}); }},
      {Call::instantiate, [&d] { d.instantiate({}); }},
      {Call::destroy_graph, [&d] { d.destroy_graph({}); }},
      {Call::destroy_exec_graph, [&d] { d.destroy_exec_graph({}); }},
      {Call::make_chain, [&d] { d.make_chain({}, {}); }},
      {Call::update_chain, [&d] { d.update_chain({}, {}); }},
      {Call::allocate_pinned, [&d] { d.allocate_pinned({}, 0); }},
      {Call::free_pinned, [&d] { d.free_pinned({}, nullptr); }},
      {Call::allocate_plain, [&d] { d.allocate_plain({}, 0); }},
      {Call::free_plain, [&d] { d.free_plain({}, {}); }},
  };
}

TEST_F(PermittedDriverTest, NotesTheCallsThatMayHangAndNoOthers) {
  std::size_t asked = 0;
  for (const auto& [call, make] : permitted_calls(permitted, foreign)) {
    EXPECT_EQ(noted_of(make).size(), 0u) << to_string(call);
    EXPECT_EQ(inner.calls(call), 1) << to_string(call);
    ++asked;
  }
  for (const Calls& calls : {work_calls(permitted, foreign), forbidden_calls(permitted, foreign)}) {
    for (const auto& [call, make] : calls) {
      const std::vector<std::string> noted = noted_of(make);
      ASSERT_EQ(noted.size(), 1u) << to_string(call);
      EXPECT_EQ(noted[0].find(to_string(call)), 0u) << noted[0];
      EXPECT_EQ(inner.calls(call), 1) << to_string(call) << " is made all the same";
      ++asked;
    }
  }
  EXPECT_EQ(asked, static_cast<std::size_t>(call_count)) << "a call is in none of the lists";
}

TEST_F(PermittedDriverTest, WorkInAContextOfTheRuntimesOwnIsPermitted) {
  const BoundStream own{permitted.create_own_context(DeviceId{0}), StreamHandle{7}};
  for (const auto& [call, make] : work_calls(permitted, own)) {
    EXPECT_EQ(noted_of(make).size(), 0u) << to_string(call);
  }
  permitted.destroy_context(own.context);
  for (const auto& [call, make] : work_calls(permitted, own)) {
    EXPECT_EQ(noted_of(make).size(), 1u) << to_string(call) << " after its destruction";
  }
}

TEST_F(PermittedDriverTest, NothingIsNotedBeforeAndAfterOrOfTheApplication) {
  const auto all = [&] {
    for (const auto& [call, make] : work_calls(permitted, foreign)) make();
    for (const auto& [call, make] : forbidden_calls(permitted, foreign)) make();
  };
  all();
  permitted.note_stopped(1);
  permitted.note_stopped(1);
  permitted.note_stopped(-1);
  {
    const PermittedDriver::AsApplication application;
    all();
  }
  EXPECT_TRUE(permitted.violations().empty());
  permitted.release({});
  EXPECT_EQ(permitted.violations(), std::vector<std::string>{"release, gates closed: 1"});
  permitted.note_stopped(-1);
  all();
  EXPECT_EQ(permitted.violations().size(), 1u);
}

TEST_F(PermittedDriverTest, IsToldThroughOtherDecorators) {
  struct Passing : InterceptDriver {
    using InterceptDriver::InterceptDriver;
    void around(Call, const std::function<void()>& body) override { body(); }
  };
  Passing outer(permitted);
  outer.note_stopped(1);
  outer.release({});
  outer.note_stopped(-1);
  outer.release({});
  EXPECT_EQ(permitted.violations().size(), 1u);
}

}  // namespace
}  // namespace vma
