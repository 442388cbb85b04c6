#include "abi/run_table.hpp"

const vma::RunTable* vmart_run_table(std::uint64_t version) {
  static constexpr vma::RunTable table = {
#define ROW(call) ::call,
      VMART_RUN_CALLS(ROW)
#undef ROW
  };
  return version == vma::RunTable::version ? &table : nullptr;
}
