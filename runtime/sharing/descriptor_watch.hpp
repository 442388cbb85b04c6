#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <exception>
#include <utility>

namespace vma {

/// Waits on a descriptor that it does not own; never closes it. One thread.
class DescriptorWatch {
 public:
  /// -1: waits for nothing. Throws: boost::system::system_error.
  DescriptorWatch(boost::asio::io_context& context, int descriptor) : watched_(context) {
    if (descriptor >= 0) watched_.assign(descriptor);
  }
  ~DescriptorWatch() { release(); }
  DescriptorWatch(const DescriptorWatch&) = delete;
  DescriptorWatch& operator=(const DescriptorWatch&) = delete;

  /// Calls `handler(error)` once it is readable, or with an error once released.
  template <typename Handler>
  void async_wait(Handler&& handler) {
    using boost::asio::posix::descriptor_base;
    if (watched_.is_open())
      watched_.async_wait(descriptor_base::wait_read, std::forward<Handler>(handler));
  }
  void release() noexcept {
    try {
      if (watched_.is_open()) watched_.release();
    } catch (const std::exception&) {  // It is released all the same.
    }
  }

 private:
  boost::asio::posix::stream_descriptor watched_;
};

}  // namespace vma
