// Replica groups written as axes of a device mesh, made into lists of devices.
//
// Text: mesh['a'=4,'b'=2], device_ids=([4,2]T(1,0)) {'a','b':(1)2}. The devices, 0, 1, 2... unless device_ids says
// otherwise, fill the mesh row-major. A group runs over the named axes, the first of them slowest; the groups follow
// one another in the order of the other axes. 'b':(2)4 is a part of an axis: 4 steps, each of what is left after the 2
// * 4 outermost ones are taken away.
#ifndef BACKPLANE_CORE_TEXT_MESH_GROUPS_H_
#define BACKPLANE_CORE_TEXT_MESH_GROUPS_H_

#include "core/text/hlo_lexer.h"

namespace backplane {

struct MeshAxis {
  int64_t axis = 0;                // index into the mesh's sizes
  int64_t pre_size = 1, size = 0;  // a part of the axis; size 0: the whole of it
};

// `devices` empty: 0, 1, 2... Errors are InvalidArgument.
absl::StatusOr<ReplicaGroups> ReplicaGroupsOfMesh(const Ints& mesh, const Ints& devices,
                                                  const std::vector<MeshAxis>& axes);

// After the word "mesh".
absl::StatusOr<ReplicaGroups> ParseMeshGroups(HloLexer& lexer);

}  // namespace backplane

#endif  // BACKPLANE_CORE_TEXT_MESH_GROUPS_H_
