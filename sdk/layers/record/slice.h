// Dependencies between the operations of a session.
#ifndef BACKPLANE_SDK_LAYERS_RECORD_SLICE_H_
#define BACKPLANE_SDK_LAYERS_RECORD_SLICE_H_

#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "sdk/layers/record/replayer.h"
#include "sdk/layers/record/session_file.h"

namespace backplane::record {

// The parts of an operation that determine its dependencies.
struct Link {
  uint64_t number = 0;
  Kind kind = Kind::kCall;
  std::vector<uint64_t> uses, makes;
};
absl::StatusOr<std::vector<Link>> CollectLinks(const SessionReader& session);

// Indices of operations in a list of links, in order.
using Selection = std::set<size_t>;

// Returns `target` and all operations that it needs: those that created what it uses, and those that filled or
// fulfilled it.
Selection CollectDependencies(const std::vector<Link>& links, size_t target);
// Returns `keep` without `removed`, and without operations that need an object which only a removed operation creates.
Selection RemoveOperations(const std::vector<Link>& links, const Selection& keep, const Selection& removed);

// Writes the operations of `keep` to a new file, with their blobs and their old numbers.
//   `values`, if not null, repeats each operation. The data that it reads replaces the data that the session read.
//   `split`: `values` runs the operations before this index. In the file they are replaced by the contents of the
//       buffers that later operations use. Returns FAILED_PRECONDITION if a later operation uses any object of theirs
//       that is not a client, an executable or a buffer.
//   `read_last`: the buffers that the last operation created are read after it, as if the host had done so. The waits
//       get the largest numbers. Requires `values`.
absl::Status WriteSelection(const SessionReader& session, const Selection& keep, Replayer* values, size_t split,
                            const std::string& made_from, const std::string& path, bool read_last = false);

}  // namespace backplane::record

#endif  // BACKPLANE_SDK_LAYERS_RECORD_SLICE_H_
