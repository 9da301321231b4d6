// The emulated library for collectives: its kernel's arguments, and the faults that it can have.
//
// libemulated_rccl.so has the functions of RCCL and NCCL that the plugin calls. It is for tests: the parts of the
// members are kernels on the emulated runtime, which checks their accesses and the order of the streams. As with its
// model, a member does its part only when all others have come to theirs. Wrong arguments give an error.
#ifndef BACKPLANE_PLUGINS_HIP_LIBRARIES_TESTING_EMULATED_COLLECTIVE_H_
#define BACKPLANE_PLUGINS_HIP_LIBRARIES_TESTING_EMULATED_COLLECTIVE_H_

#include <cstdint>

namespace backplane::hip::emulated_collective {

// How the library is wrong, slow, or does not end.
enum class Mode : int32_t {
  kRight,
  kWrong,           // the last element of the last member's result is another
  kBeyond,          // writes one element behind the result
  kUnordered,       // the order of the terms changes from call to call
  kRoundsEachTerm,  // sums of f16 and bf16 are rounded after each term
  kSkipsNan,        // maxima and minima leave out what is no number
  kSlow,            // the work is done many times
  kHangs,           // the first member waits until the communicators are aborted
  kHangsWithError,  // the same, and ncclCommGetAsyncError reports it
  kFailsHalfway,    // ncclGroupEnd fails when only some members have been given work
};

// Exported besides the functions of NCCL; looked up by dlsym:
// void emulatedCollectiveSetMode(int32_t mode)
using SetMode = void (*)(Mode mode);
// void emulatedCollectiveSetFault(const char* function, int64_t n): the n-th call of the function from now on fails. 0
// withdraws it.
using SetFault = void (*)(const char* function, int64_t n);
// int64_t emulatedCollectiveCallCount(const char* function)
using CallCount = int64_t (*)(const char* function);
// int64_t emulatedCollectiveLiveComms(): communicators that were neither destroyed nor aborted.
using LiveComms = int64_t (*)();

inline constexpr int kMaxPieces = 16;

struct CombineArguments {
  int32_t type, reducer;  // of nccl.h; a reducer of -1 copies pieces
  Mode mode;
  int32_t pieces;
  int32_t reversed, pad;  // the terms are combined from the last one on
  int64_t count;          // elements of a piece
  const void* from[kMaxPieces];
  void* to[kMaxPieces];  // one if pieces are combined
};

}  // namespace backplane::hip::emulated_collective

#endif  // BACKPLANE_PLUGINS_HIP_LIBRARIES_TESTING_EMULATED_COLLECTIVE_H_
