// The processes of one check of the suite `processes`: the one that runs the check starts the others, which run it too.
#ifndef BACKPLANE_CONFORMANCE_KIT_PROCESSES_H_
#define BACKPLANE_CONFORMANCE_KIT_PROCESSES_H_

#include <memory>
#include <string>
#include <vector>

#include "conformance/kit/kit.h"
#include "sdk/host/folder_store.h"

namespace backplane::conformance {

class Processes {
 public:
  // Runs `body` in as many processes as the option --processes says. A failure in another process is reported as a
  // failure of the check, with the process before it. `dying` is a process that kills itself, whose end is no failure;
  // -1: none.
  static void Run(Kit& k, void (*body)(Processes&), int dying = -1);

  Kit& kit() { return k_; }
  int self() const { return self_; }
  int count() const { return count_; }

  // ---- The client of this process
  // Creates it with the options node_id and num_nodes, and makes it the kit's.
  void CreateClient();
  // Tries to create it as process `node_id` of `num_nodes`. `store` tells whether the client gets the key-value store.
  Err TryClient(int64_t node_id, int64_t num_nodes, bool store = true);
  void DestroyClient();
  // Returns the devices of all processes.
  std::vector<PJRT_Device*> AllDevices();
  int GetProcess(PJRT_Device* device);

  // ---- Among the processes
  // Returns what all processes have passed, by process. All call it equally often.
  std::vector<std::string> Gather(const std::string& value);
  void Barrier() { Gather(""); }
  // Waits for all, so that none ends before the others are done, and destroys the client.
  void Leave();

 private:
  explicit Processes(Kit& k) : k_(k) {}

  Kit& k_;
  int self_ = 0, count_ = 1, gathered_ = 0;
  std::unique_ptr<host::FolderKeyValueStore> store_;
};

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_PROCESSES_H_
