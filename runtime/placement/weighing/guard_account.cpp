#include "placement/weighing/guard_account.hpp"

#include "base/units.hpp"

#include <algorithm>
#include <cmath>

namespace vma::inline v1 {
namespace {

constexpr double sample_share = 0.25;  // Of `start`: what the sample may lose in one back-off.
constexpr double earned_most = 2;      // Times `start`, at which the back-off starts anew.

}  // namespace

void GuardAccount::used(double seconds, double saved, bool in_sample) {
  balance_ += saved;
  if (balance_ < limits_.start)
    balance_ = std::min(limits_.start, balance_ + limits_.allowance * seconds);
  if (in_sample) sample_saved_ += saved;
}

void GuardAccount::moved(double seconds, bool in_sample) {
  balance_ -= seconds;
  if (in_sample) sample_spent_ += seconds;
}

bool GuardAccount::affords(double pending, bool in_sample) const {
  if (follows_) return balance_ > pending;
  return in_sample && sample_share * limits_.start + sample_saved_ > sample_spent_ + pending;
}

void GuardAccount::judge(Time now) {
  const double above = balance_ - limits_.start;
  if (above > 0) {
    const double half_lives = in_seconds(now - judged_) / in_seconds(limits_.half_life);
    balance_ = limits_.start + above * std::exp2(-half_lives);
  }
  judged_ = now;
  if (follows_ && balance_ < 0) return stop(now);
  if (follows_ && balance_ > earned_most * limits_.start) back_off_ = limits_.back_off;
  if (follows_ || now < until_) return;
  const bool sample_pays = sample_spent_ > 0 && sample_saved_ > sample_spent_;
  if (balance_ >= limits_.start || sample_pays) follow();
}

void GuardAccount::follow() {
  follows_ = true;
  balance_ = std::max(balance_, limits_.start);
}

void GuardAccount::stop(Time now) {
  follows_ = false;
  until_ = now + back_off_;
  back_off_ = std::min(2 * back_off_, limits_.back_off_max);
  sample_spent_ = sample_saved_ = 0;
}

}  // namespace vma::inline v1
