#include "sdk/backend/processes/child_sockets.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

namespace backplane::adapter {
namespace {

struct OwnedSocket {
  SocketId id;
  const ChildSockets* owner;
};

// Never destroyed, because a child may be made while the process exits.
std::mutex& mu = *new std::mutex;
std::vector<OwnedSocket>& sockets = *new std::vector<OwnedSocket>;

bool IsOpen(const SocketId& id) {
  struct stat status {};
  return fstat(id.number, &status) == 0 && status.st_dev == id.device && status.st_ino == id.inode;
}

void BeforeFork() { mu.lock(); }
void AfterFork() { mu.unlock(); }

// The numbers stay in use, because the copy of the adapter in the child may still close them. Calls only what a child
// of a process with threads may call.
void InChild() {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const OwnedSocket& s : sockets) {
    if (IsOpen(s.id) && (null < 0 || dup3(null, s.id.number, O_CLOEXEC) < 0)) close(s.id.number);
  }
  if (null >= 0) close(null);
  mu.unlock();
}

}  // namespace

std::vector<SocketId> ListSockets() {
  std::vector<SocketId> found;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return found;
  while (const dirent* entry = readdir(folder)) {
    char* end = nullptr;
    const int number = static_cast<int>(std::strtol(entry->d_name, &end, 10));
    int domain = 0;
    socklen_t size = sizeof domain;
    struct stat status {};
    if (end == entry->d_name || getsockopt(number, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 ||
        (domain != AF_INET && domain != AF_INET6) || fstat(number, &status) != 0)
      continue;
    found.push_back({number, status.st_dev, status.st_ino});
  }
  closedir(folder);
  return found;
}

ChildSockets::ChildSockets(const std::vector<SocketId>& before) {
  static const int registered = pthread_atfork(&BeforeFork, &AfterFork, &InChild);
  (void)registered;  // without memory for it only programs lose the sockets
  const std::vector<SocketId> now = ListSockets();
  const std::lock_guard<std::mutex> lock(mu);
  sockets.reserve(sockets.size() + now.size());
  for (const SocketId& id : now) {
    if (std::find(before.begin(), before.end(), id) != before.end()) continue;
    const int flags = fcntl(id.number, F_GETFD);
    if (flags >= 0) (void)fcntl(id.number, F_SETFD, flags | FD_CLOEXEC);
    sockets.push_back({id, this});
  }
}

ChildSockets::~ChildSockets() {
  const std::lock_guard<std::mutex> lock(mu);
  sockets.erase(std::remove_if(sockets.begin(), sockets.end(), [&](const OwnedSocket& s) { return s.owner == this; }),
                sockets.end());
}

}  // namespace backplane::adapter
