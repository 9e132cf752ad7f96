"""Mutants that take what is not theirs, or touch the wrong one: names, owners and UIDs."""

from genericjob.jobs import owned
from genericjob.jobs.applying import Applier
from genericjob.jobs.bodies import accepts
from genericjob.jobs.controller import JobController
from genericjob.jobs.observe import _Looking
from genericjob.jobs.podgroups import PodGroups, _obstacle
from genericjob.reconcile.writes import Sender
from sim.mutants.switch import edit, mutant

mutant(
    "deletes_by_name",
    "2",
    "A delete does not say which object of the name it means.",
    edit(Sender._delete, "uid=write.uid", 'uid=""'),
    first=("within_the_limit",),
)
mutant(
    "deletes_by_force",
    "1",
    "Pods are deleted without time to stop, so their names are free while they still run.",
    edit(Sender._delete, "grace=write.grace", "grace=0"),
    first=("within_the_limit",),
)
mutant(
    "takes_any_409_for_its_own",
    "2",
    "Whatever exists under one of our names is taken for ours.",
    edit(accepts, 'return "wait" if ours or heir else "foreign"', 'return "ours"'),
    first=("a_stranger_has_our_name",),
)
mutant(
    "takes_a_predecessor_for_a_stranger",
    "",
    "A job that waits for the pods of the one before it says that somebody has its names.",
    edit(accepts, 'heir = found.owner_uid != "" and', "heir = False and"),
    first=("a_predecessor_takes_its_time",),
)
mutant(
    "removes_strangers",
    "2",
    "Who has one of our names and is not ours is deleted.",
    edit(
        Sender._met,
        "    return Done(write, ",
        "    self._api.delete(write.resource, Key(write.namespace, write.name), uid=found.uid)\n    return Done(write, ",
    ),
    first=("a_stranger_has_our_name",),
)
mutant(
    "adopts_by_label",
    "2",
    "A pod belongs to the job whose name is in its label, whoever owns it.",
    edit(
        JobController._observe,
        "self._pods.by(OWNER, owner, namespace=namespace)",
        "[pod for pod in self._pods.values() if pod.labels.get(names.JOB_LABEL) == job.identity.name]",
    ),
    first=("a_predecessor_takes_its_time", "a_job_is_created_again_under_its_name"),
)
mutant(
    "owns_without_control",
    "2",
    "The owner reference does not say that the job controls the object.",
    edit(owned.owner, '"controller": True', '"controller": False'),
    first=("rank_zero_decides",),
)
mutant(
    "takes_another_epoch_for_the_present",
    "5",
    "A pod counts for its rank although it belongs to an epoch that is over.",
    edit(_Looking.ranks, "notes.get(EPOCH_ANNOTATION) != epoch or ", ""),
    edit(
        _Looking._is_current,
        "(number(pod, EPOCH_ANNOTATION), str(number(pod, ATTEMPT_ANNOTATION)))",
        "(self._epoch, str(number(pod, ATTEMPT_ANNOTATION)))",
    ),
    first=("a_change_of_mind_on_the_way_to_a_pause", "all_restart_together"),
)
mutant(
    "takes_another_attempt_for_the_present",
    "4",
    "A pod counts for its rank although the rank has been started again since.",
    edit(_Looking.ranks, " or notes.get(ATTEMPT_ANNOTATION) != attempt) and", ") and"),
    edit(_Looking._is_current, "str(number(pod, ATTEMPT_ANNOTATION))", "attempt"),
    first=("within_the_limit",),
)
mutant(
    "expires_whatever_has_the_name",
    "2",
    "A job that has been over for long enough is deleted although somebody has changed it meanwhile.",
    edit(JobController._delete, "resource_version=stored.resource_version", 'resource_version=""'),
    first=("a_job_expires",),
)
mutant(
    "uses_the_group_of_another",
    "2",
    "A PodGroup of our name is used and changed, whoever owns it.",
    edit(_obstacle, 'if owner.get("uid") == job.identity.uid:', "if True:"),
    first=("a_stranger_has_our_group",),
)
mutant(
    "makes_pods_before_their_group",
    "",
    "The scheduler sees pods whose group is not there yet.",
    edit(
        Applier.writes,
        "if plan.pods and (hindered := self._without_a_group(job)):",
        "if plan.pods and not self._writer.apply(self._creates(job, plan, room=AT_A_TIME)) and (hindered := self._without_a_group(job)):",
    ),
    first=("the_scheduler_comes_later",),
)
mutant(
    "never_corrects_its_group",
    "",
    "The scheduler waits for as many members as the job once had.",
    edit(PodGroups._corrected, '.get("minMember") == job.spec.total', '.get("minMember")'),
    first=("a_gang_changes_its_size",),
)
mutant(
    "manages_what_others_manage",
    "2",
    "A job of another controller is acted upon.",
    edit(JobController._bring_forward, "if job.spec.managed_by not in (None, names.MANAGER):", "if False:"),
    first=("another_controllers_job",),
)
