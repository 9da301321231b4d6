// What a check was doing last, in memory that outlives its process: when a plugin aborts or hangs, the runner still
// learns in which call.
#ifndef BACKPLANE_CONFORMANCE_KIT_TRAIL_H_
#define BACKPLANE_CONFORMANCE_KIT_TRAIL_H_

#include <atomic>
#include <string>

namespace backplane::conformance {

class Trail {
 public:
  // A new one, or an inherited one by its file descriptor. Null when the system refuses.
  static Trail* Create(int* fd);
  static Trail* Open(int fd);
  void Close();  // `this` is gone after it

  // Thread-safe; the last writer wins. `call` is a string constant of the program.
  void Enter(const char* call);
  void Leave();
  std::string Describe() const;  // "in PJRT_Event_Await", "after PJRT_Event_Await", or ""
  void Clear();

 private:
  std::atomic<int> inside_;
  char call_[120];
};

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_TRAIL_H_
