#pragma once

#include "control/control_socket.hpp"
#include "control/descriptor.hpp"
#include "sharing/export_connection.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace boost::asio {
class io_context;
}

namespace vma {

/// Who may import, and how patient the exporter is.
struct ExportRequest {
  std::string path;             ///< Of the socket.
  std::vector<unsigned> users;  ///< Who may import, besides this user and root.
  std::size_t importers_max = 64;
  /// See `import_time`: a process that takes longer to import is disconnected.
  std::chrono::milliseconds import_limit{5'000};
};

/// One exported allocation: a socket at a path, and a connection for each process that imports or
/// has imported. While there is one of the latter, the allocation moves only with it
/// (`ServedExporterMove`).
///
/// All work runs on the thread that runs the context, which never waits for another process: a
/// stalled connection holds two descriptors until its limit expires. A process that may not import
/// is told so and disconnected before it gets a place or anything it sends is read. Start, close
/// and destroy it on that thread, or while no thread runs the context; the calls for moves come
/// from there, too. Every other member may be called by any thread. Handlers keep it alive.
class MemoryExport : public std::enable_shared_from_this<MemoryExport> {
 public:
  /// Listens from here on. Requires: what is passed by reference outlives it. Throws: like
  /// `ControlSocket`.
  MemoryExport(boost::asio::io_context& context, const ExportParts& parts,
               std::shared_ptr<Allocation> allocation, const ExportRequest& request);
  ~MemoryExport();

  void start();
  /// Removes the path and ends all connections; the allocation may move again. Importers keep what
  /// they have. Idempotent.
  void close() noexcept;

  /// Why its importers cannot follow a move at this moment; empty if they can.
  std::string why_not_moving() const;
  /// All importers take part in the move. Requires: they can.
  void join(const std::shared_ptr<ExporterMoveState>& move) noexcept;
  /// Asks those that take part in a move.
  void ask_to_stop() noexcept;

  const std::string& path() const noexcept { return socket_.path(); }
  void remove_path() noexcept { socket_.remove(); }
  Allocation& allocation() noexcept { return *allocation_; }

 private:
  struct Acceptor;

  void wait_for_peer();
  void wait_before_retry();
  void keep_accepting() noexcept;
  bool accept_one();
  void admit(ShareChannel channel);
  bool may_import(unsigned user) const;
  void refuse_stranger(ShareChannel channel) noexcept;

  boost::asio::io_context& context_;
  const ExportParts parts_;
  const std::shared_ptr<Allocation> allocation_;
  const ExportRequest request_;
  ImportPlaces places_;
  ControlSocket socket_;
  std::unique_ptr<Acceptor> acceptor_;
  std::vector<std::shared_ptr<ExportConnection>> connections_;
  bool closed_ = false, stranger_logged_ = false;
};

}  // namespace vma
