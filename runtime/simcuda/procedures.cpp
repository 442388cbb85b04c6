// The look-up of entry points, as cuGetProcAddress does it, and the names of codes.
#include "simcuda/boundary.hpp"
#include "simcuda/entry_points.hpp"
#include "simcuda/library.hpp"

#include "entry_points/newer_types.hpp"

#include <cudaTypedefs.h>

#include <string_view>
#include <type_traits>

// Those whose declarations cuda.h lacks, or hides behind inline functions.
#define ROW(base, since, symbol, suffix) extern "C" decltype(symbol) symbol##suffix;
SIMCUDA_STREAM_CALLS(ROW)
#undef ROW
#define ROW(base, since, symbol, type) extern "C" std::remove_pointer_t<vma::type> symbol;
#define STREAM_ROW(base, since, symbol, type) \
  ROW(base, since, symbol, type)              \
  extern "C" std::remove_pointer_t<vma::type> symbol##_ptsz;
SIMCUDA_NEWER_CALLS(ROW)
SIMCUDA_NEWER_STREAM_CALLS(STREAM_ROW)
#undef STREAM_ROW
#undef ROW
static_assert(CUDA_VERSION >= 12050, "older headers lack some of the calls");

namespace vma {
namespace {

#define ROW(base, since, symbol)                                          \
  static_assert(std::is_same_v<decltype(&symbol), PFN_##base##_v##since>, \
                #symbol " is another version than its row says");
SIMCUDA_CALLS(ROW)
#undef ROW

struct Procedure {
  std::string_view base;
  int since;
  void* function;
  void* per_thread;  // Null if there is none.
};

template <typename Function>
void* erased(Function* function) {
  return reinterpret_cast<void*>(function);
}

const Procedure* newest(std::string_view base, int version, bool& known) {
#define ROW(base, since, symbol) {#base, since, erased(&symbol), nullptr},
#define STREAM_ROW(base, since, symbol, suffix) \
  {#base, since, erased(&symbol), erased(&symbol##suffix)},
#define NEWER_ROW(base, since, symbol, type) ROW(base, since, symbol)
#define NEWER_STREAM_ROW(base, since, symbol, type) STREAM_ROW(base, since, symbol, _ptsz)
  static const Procedure procedures[] = {SIMCUDA_CALLS(ROW) SIMCUDA_STREAM_CALLS(
      STREAM_ROW) SIMCUDA_NEWER_CALLS(NEWER_ROW) SIMCUDA_NEWER_STREAM_CALLS(NEWER_STREAM_ROW)};
#undef NEWER_STREAM_ROW
#undef NEWER_ROW
#undef STREAM_ROW
#undef ROW
  const Procedure* found = nullptr;
  for (const Procedure& procedure : procedures) {
    if (procedure.base != base) continue;
    known = true;
    if (procedure.since > version) continue;
    if (found == nullptr || procedure.since > found->since) found = &procedure;
  }
  return found;
}

/// Null if there is none.
void* look_up(const char* base, int version, cuuint64_t flags,
              CUdriverProcAddressQueryResult& status) {
  if (version > simcuda_version) refuse(CUDA_ERROR_INVALID_VALUE);
  bool known = false;
  const Procedure* const found = newest(required(base), version, known);
  if (found == nullptr) {
    status =
        known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return nullptr;
  }
  status = CU_GET_PROC_ADDRESS_SUCCESS;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  return per_thread && found->per_thread != nullptr ? found->per_thread : found->function;
}

const char* name_of_code(CUresult code) {
  switch (code) {
#define CODE(name) \
  case name: return #name;
#include "simcuda/codes.inc"
#undef CODE
    default: return nullptr;
  }
}

}  // namespace

SIMCUDA_CALL(cuGetProcAddress, (const char* base, void** function, int version, cuuint64_t flags),
             (base, function, version, flags)) {
  CUdriverProcAddressQueryResult status{};
  *required(function) = look_up(base, version, flags, status);
  if (status != CU_GET_PROC_ADDRESS_SUCCESS) refuse(CUDA_ERROR_NOT_FOUND);
}

SIMCUDA_CALL(cuGetProcAddress_v2,
             (const char* base, void** function, int version, cuuint64_t flags,
              CUdriverProcAddressQueryResult* status),
             (base, function, version, flags, status)) {
  CUdriverProcAddressQueryResult found{};
  *required(function) = look_up(base, version, flags, found);
  if (status != nullptr) *status = found;
}

// Its tables are private to NVIDIA's own libraries.
SIMCUDA_CALL(cuGetExportTable, (const void** table, const CUuuid*), (table, nullptr)) {
  *required(table) = nullptr;
  refuse(CUDA_ERROR_NOT_FOUND);
}

SIMCUDA_CALL(cuGetErrorName, (CUresult code, const char** text), (code, text)) {
  *required(text) = name_of_code(code);
  if (*text == nullptr) refuse(CUDA_ERROR_INVALID_VALUE);
}
// The simulator has no other text for a code than its name.
SIMCUDA_CALL(cuGetErrorString, (CUresult code, const char** text), (code, text)) {
  *required(text) = name_of_code(code);
  if (*text == nullptr) refuse(CUDA_ERROR_INVALID_VALUE);
}

}  // namespace vma
