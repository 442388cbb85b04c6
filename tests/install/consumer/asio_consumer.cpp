// A program on Boost.Asio against the installed tree: the result of a background move arrives on
// its own executor.

#include <vma/asio.hpp>
#include <vma/vma.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstdio>

int main() {
  namespace asio = boost::asio;
  asio::io_context context;
  int moved = 0;
  const auto move = [&moved]() -> asio::awaitable<void> {
    const vma::Stream stream = vma::make_stream(vma::gpu(0));
    {
      const vma::AttachedStream attached(stream);
      void* pointer = vma::alloc(1 << 20, vma::gpu(0));
      vma::Migration migration = vma::migrate_async(pointer, vma::gpu(1));
      moved = (co_await vma::async_wait(migration, asio::use_awaitable)).chunks_moved;
      vma::free(pointer);
    }
    vma::destroy_stream(stream);
  };
  asio::co_spawn(context, move, asio::detached);
  context.run();
  std::printf("asio_consumer: %d chunks moved\n", moved);
  return moved > 0 ? 0 : 1;
}
