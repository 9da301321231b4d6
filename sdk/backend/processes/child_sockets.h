// Keeps the connections of an adapter from child processes. A child that has them keeps them open after its parent has
// ended, so the other processes do not notice the end. Used by the adapters; the standard library only.
#ifndef BACKPLANE_SDK_BACKEND_PROCESSES_CHILD_SOCKETS_H_
#define BACKPLANE_SDK_BACKEND_PROCESSES_CHILD_SOCKETS_H_

#include <sys/types.h>

#include <vector>

namespace backplane::adapter {

// The number of a socket that is closed may be that of another file later.
struct SocketId {
  int number;
  dev_t device;
  ino_t inode;
  friend bool operator==(const SocketId&, const SocketId&) = default;
};

// The open sockets of this process for a network. Empty if they cannot be listed.
std::vector<SocketId> ListSockets();

// From its construction on child processes lose the sockets that have been opened since `before`: those that run
// another program (FD_CLOEXEC), and those that are made by fork() alone. The sockets may be closed meanwhile.
class ChildSockets {
 public:
  explicit ChildSockets(const std::vector<SocketId>& before);
  ~ChildSockets();
  ChildSockets(const ChildSockets&) = delete;
  ChildSockets& operator=(const ChildSockets&) = delete;
};

}  // namespace backplane::adapter

#endif  // BACKPLANE_SDK_BACKEND_PROCESSES_CHILD_SOCKETS_H_
