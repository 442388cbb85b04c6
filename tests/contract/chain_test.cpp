// Goal: a chain runs its steps in order, however often it is updated; it does not wait for another
// thread that frees memory, nor delay it. Method: {wait for go; store; write done}, examined before
// go, after done, and next to a thread that frees in a loop.

#include "contract/beside.hpp"
#include "contract/chain_rig.hpp"
#include "contract/contract_test.hpp"

#include <atomic>
#include <optional>

namespace vma {
namespace {

template <typename Machine>
class Chains : public ContractTest<Machine> {};
TYPED_TEST_SUITE(Chains, ContractMachines, MachineNames);

TYPED_TEST(Chains, AKernelRunsAfterGoAndBeforeDone) {
  VMART_IN_CHILD(90);
  TestChain chain(this->rig(), this->rig().context(0));
  for (const std::uint64_t epoch : {1, 2, 3}) {
    SCOPED_TRACE(epoch);
    const std::uint64_t before = chain.value();
    chain.update(epoch, 100 + epoch);
    chain.launch();
    EXPECT_TRUE(chain.stands());
    EXPECT_EQ(chain.value(), before) << "it has run before go";
    chain.go(epoch);
    ASSERT_TRUE(chain.done(epoch));
    EXPECT_EQ(chain.value(), 100 + epoch) << "done was written before the kernel had ended";
    EXPECT_TRUE(this->rig().wait(chain.stream()));
  }
}

TYPED_TEST(Chains, AThousandUpdatesAndLaunches) {
  VMART_IN_CHILD(120);
  TestChain chain(this->rig(), this->rig().context(0));
  for (std::uint64_t epoch = 1; epoch <= 1000; ++epoch) {
    chain.update(epoch, epoch * 3);
    chain.launch();
    chain.go(epoch);
    ASSERT_TRUE(chain.done(epoch)) << epoch;
    ASSERT_EQ(chain.value(), epoch * 3);
  }
}

TYPED_TEST(Chains, AnUpdateLeavesTheLaunchUnderWayAlone) {
  VMART_IN_CHILD(90);
  TestChain chain(this->rig(), this->rig().context(0));
  chain.update(1, 5);
  chain.launch();
  EXPECT_TRUE(chain.stands());
  chain.update(2, 6);
  chain.launch();
  chain.go(1);
  ASSERT_TRUE(chain.done(1));
  EXPECT_EQ(chain.value(), 5u);
  EXPECT_TRUE(chain.stands()) << "the second waits for its own go";
  chain.go(2);
  ASSERT_TRUE(chain.done(2));
  EXPECT_EQ(chain.value(), 6u);
}

TYPED_TEST(Chains, StepsThatDoNotFitAreRefusedAndChangeNothing) {
  TestChain chain(this->rig(), this->rig().context(0));
  Driver& driver = this->driver();
  const auto refused = [&](const std::vector<ChainStep>& steps) {
    return native_of([&] { driver.update_chain(chain.handle(), steps); });
  };
  std::vector<ChainStep> fewer = chain.steps(9, 9);
  fewer.pop_back();
  EXPECT_EQ(refused(fewer), native_invalid_value);
  std::vector<ChainStep> more_words = chain.steps(9, 9);
  more_words[2].words.push_back(more_words[2].words[0]);
  EXPECT_EQ(refused(more_words), native_invalid_value);
  std::vector<ChainStep> other_kind = chain.steps(9, 9);
  std::swap(other_kind[1], other_kind[2]);
  EXPECT_EQ(refused(other_kind), native_invalid_value);
  std::vector<ChainStep> other_operation = chain.steps(9, 9);
  other_operation[2].words[0].kind = WordOperation::Kind::wait_until_at_least;
  EXPECT_EQ(refused(other_operation), native_invalid_value);
  EXPECT_EQ(native_of([&] { driver.make_chain(this->rig().context(0), {}); }),
            native_invalid_value);

  chain.launch();
  chain.go(1);
  EXPECT_TRUE(chain.done(1)) << "it still does its first steps";
}

/// Another thread of the program that allocates, frees and synchronises until it is stopped.
class FreeLoop {
 public:
  FreeLoop(Driver& driver, ContextHandle context)
      : thread_([this, &driver, context] {
          while (!stop_) {
            driver.free_plain(context, driver.allocate_plain(context, 1 << 16));
            driver.synchronize_context(context);
            ++rounds_;
          }
        }) {}
  ~FreeLoop() { stop_ = true; }
  int rounds() const { return rounds_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> rounds_{0};
  Beside thread_;
};

TYPED_TEST(Chains, ALaunchAheadOfAGateNeverWaitsForAThreadThatFrees) {
  VMART_IN_CHILD(120);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  const BoundStream application = rig.new_stream(rig.context(0));
  std::uint64_t* arrived = rig.new_word();
  std::uint64_t* opened = rig.new_word();
  const KernelHandle add = rig.kernel(rig.context(0), atomic_add_kernel());
  TestChain chain(rig, rig.context(0));
  std::uint64_t* launches = rig.new_word();
  constexpr std::uint64_t gates = 200;

  FreeLoop frees(driver, rig.context(0));
  for (std::uint64_t epoch = 1; epoch <= gates; ++epoch) {
    driver.launch(application, add, {{1}, {1}}, KernelArguments::of(launches, std::uint64_t{1}));
    chain.update(epoch, epoch);
    chain.launch();
    const WordOperation gate[] = {
        {WordOperation::Kind::write, address_of(arrived), epoch},
        {WordOperation::Kind::wait_until_at_least, address_of(opened), epoch}};
    driver.batch(application, gate);
    const bool closed = ContractRig::becomes(*arrived, epoch);
    chain.go(epoch);
    const bool settled = chain.done(epoch);
    std::atomic_ref(*opened).store(epoch);
    ASSERT_TRUE(closed && settled) << "gate " << epoch << ", closed " << closed;
    ASSERT_EQ(chain.value(), epoch);
  }
  EXPECT_TRUE(rig.wait(application));
  EXPECT_EQ(*launches, gates);
  EXPECT_GT(frees.rounds(), 10) << "too few to disturb";
}

TYPED_TEST(Chains, BehindAStoppedStreamTheyAreMadeButNotLaunchedBesideAFree) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  const Address plain = driver.allocate_plain(rig.context(0), 1 << 16);
  ExecGraphHandle made{};
  std::optional<Beside> make_call, free_call, update_call, launch_call;
  {
    TestChain chain(rig, rig.context(0));
    const BoundStream busy = rig.new_stream(rig.context(0));
    StoppedStream stopped(rig, busy);
    ASSERT_TRUE(stopped.stands());
    make_call.emplace([&] { made = driver.make_chain(rig.context(0), chain.steps(1, 1)); });
    EXPECT_FALSE(make_call->stands());
    free_call.emplace([&] { driver.free_plain(rig.context(0), plain); });
    EXPECT_TRUE(free_call->stands());
    update_call.emplace([&] { chain.update(1, 1); });
    EXPECT_FALSE(update_call->stands());
    launch_call.emplace([&] { chain.launch(); });
    EXPECT_TRUE(launch_call->stands());
    chain.go(1);
    stopped.open();
    make_call->join();
    free_call->join();
    update_call->join();
    launch_call->join();
  }
  driver.destroy_exec_graph(made);
}

}  // namespace
}  // namespace vma
