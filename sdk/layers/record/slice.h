// Which operations of a session need which.
#ifndef BACKPLANE_SDK_LAYERS_RECORD_SLICE_H_
#define BACKPLANE_SDK_LAYERS_RECORD_SLICE_H_

#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "sdk/layers/record/replayer.h"
#include "sdk/layers/record/session_file.h"

namespace backplane::record {

// The skeleton of an operation.
struct Link {
  uint64_t number = 0;
  Kind kind = Kind::kCall;
  std::vector<uint64_t> uses, makes;
};
absl::StatusOr<std::vector<Link>> LinksOf(const SessionReader& session);

// Indices into `links`, in their order.
using Selection = std::set<size_t>;

// `target` and all it needs: the operations that made what it uses, and those that filled or fulfilled it.
Selection NeededFor(const std::vector<Link>& links, size_t target);
// `keep` less `removed` and less what needs something that only a removed operation made.
Selection Without(const std::vector<Link>& links, const Selection& keep, const Selection& removed);

// Writes the operations of `keep` into a file of their own, with the blobs they name and their old numbers.
//   `values`, if given, does each operation as well, and what was read in the session is replaced by what it reads.
//   `cut`: operations before this index are done by `values`, and in the file are replaced by the contents of the
//   buffers
//          that later ones use. FAILED_PRECONDITION when a later one uses anything else of them than clients,
//          executables and buffers.
//   `read_last`: behind the last operation, buffers that it made are read, as if the host had done so; their waits have
//          the highest numbers. Needs `values`.
absl::Status WriteSelection(const SessionReader& session, const Selection& keep, Replayer* values, size_t cut,
                            const std::string& made_from, const std::string& path, bool read_last = false);

}  // namespace backplane::record

#endif  // BACKPLANE_SDK_LAYERS_RECORD_SLICE_H_
