#pragma once

#include "twin/twin_play.hpp"
#include "twin/twin_world.hpp"

#include <vma/group.hpp>
#include <vma/migration.hpp>

#include <random>
#include <vector>

namespace vma {

/// Moves a play's two arrays, in whole or in part, in all directions, several moves at once, often
/// both to one place, with a call for each or one for both; cancels some. One thread.
class TwinMover {
 public:
  explicit TwinMover(TwinWorld& world);

  /// Returns when all moves have ended. A move that ends in an unexpected way fails the play.
  void run();
  void add_to(TwinOutcome& outcome);

 private:
  MigrateOptions draw_options();
  void move_some();
  MoveRequest draw_request(const TwinArray& array, Place to);
  void move_held();
  void end_one();
  void count(const MigrationReport& report);
  void judge(const Error& error);

  TwinWorld& world_;
  const TwinPlan& plan_;
  std::mt19937_64 random_;
  std::vector<Migration> under_way_;
  TwinOutcome seen_;
};

}  // namespace vma
