#pragma once

#include "control/control_server.hpp"
#include "unit/control/control_peer.hpp"
#include "unit/control/fake_control_target.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <future>
#include <memory>
#include <string>
#include <thread>

namespace vma {

/// A control server of a fake runtime, with a thread for its event loop.
class ControlRig {
 public:
  explicit ControlRig(const ControlLimits& limits = {})
      : server_(std::make_unique<ControlServer>(context_, target_, folder_.path("control.sock"),
                                                limits)),
        loop_([this] { context_.run(); }) {}
  ~ControlRig() {
    close();
    work_.reset();
    loop_.join();
  }

  /// Destroys the server as its owner would; the event loop keeps running.
  void close() {
    std::promise<void> closed;
    boost::asio::post(context_, [&] {
      server_.reset();
      closed.set_value();
    });
    closed.get_future().wait();
  }
  std::string path() const { return folder_.path("control.sock"); }
  const std::string& folder() const { return folder_.path(); }
  FakeControlTarget& target() { return target_; }

 private:
  TestFolder folder_;
  FakeControlTarget target_;
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_ =
      boost::asio::make_work_guard(context_);
  std::unique_ptr<ControlServer> server_;
  std::thread loop_;
};

}  // namespace vma
