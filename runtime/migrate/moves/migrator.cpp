#include "migrate/moves/migrator.hpp"

#include "base/log.hpp"
#include "base/process_exit.hpp"
#include "migrate/stops/copy_scopes.hpp"

#include <exception>
#include <utility>
#include <vector>

namespace vma {
namespace {

/// A policy has looked before it took the lock of its scheduler.
void require_guards(const NewMigration& migration) {
  if (migration.options.nothing_runs || !migration.terms.requires_guards) return;
  const CopyScopes& copies = CopyScopes::process();
  if (!migration.terms.by_policy) copies.look();
  copies.require_guards("vma::migrate_async");
}

}  // namespace

Migrator::Migrator(Memory& memory, CopyEngine& engine, const MigratorLimits& limits)
    : parts_(memory, engine, limits), preparation_(memory, parts_.copiers, parts_.stops) {
  parts_.stops.before_stopping([this] { parts_.copiers.await_engines(); });
}

Migrator::~Migrator() {
  finish();
}

std::shared_ptr<MigrationTask> Migrator::submit(std::shared_ptr<Allocation> allocation,
                                                SlotRange range, Place to,
                                                const MigrateOptions& options,
                                                const MigrationTerms& terms) {
  std::vector<NewMigration> migrations;
  migrations.push_back({{std::move(allocation), range, to}, options, terms, nullptr, {}});
  return submit_all(std::move(migrations)).front();
}

std::vector<std::shared_ptr<MigrationTask>> Migrator::submit_all(
    std::vector<NewMigration> migrations) {
  ProcessExit::come_first();
  std::vector<std::shared_ptr<MigrationTask>> all, waiting;
  for (NewMigration& migration : migrations) {
    auto& [what, options, terms, group, refusal] = migration;
    all.push_back(
        std::make_shared<MigrationTask>(std::move(what.allocation), what.range, what.to, options,
                                        terms, parts_.memory.driver().current_context(),
                                        parts_.memory.driver().clock(), parts_.callbacks, group));
    try {
      require_guards(migration);
    } catch (const Error& error) {
      if (!refusal) refusal = error;
    }
    if (refusal) {
      MigrationReport report = all.back()->report();
      report.outcome = Outcome::failed;
      all.back()->finish(std::move(report), std::move(refusal));
      continue;
    }
    start_callbacks(options);
    waiting.push_back(all.back());
  }
  if (waiting.empty()) return all;
  preparation_.begin_suspensions();
  workers_.enqueue(waiting);
  return all;
}

/// Ensures before a move begins that its end can be reported.
void Migrator::start_callbacks(const MigrateOptions& options) {
  try {
    parts_.callbacks->start();
  } catch (const std::exception& error) {
    if (options.on_progress) throw;
    log(LogLevel::debug, "the callback thread could not be started: {}", error.what());
  }
}

void Migrator::prepare_for(Address scope) noexcept {
  if (parts_.limits.prepares_gates) preparation_.begin_for(scope);
}

void Migrator::finish() noexcept {
  stop_accepting();
  preparation_.stop();
  workers_.join();
  parts_.callbacks->stop();
}

}  // namespace vma
