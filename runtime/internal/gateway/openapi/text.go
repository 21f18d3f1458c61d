// Code generated from the comments of package host by TestDescriptionsAreTheCommentsOfTheContract. DO NOT EDIT.

package openapi

// hostText describes structs, their members and the error codes.
var hostText = map[string]string{
	"ActorLimits": "ActorLimits are the limits that operators have set for one actor. A nil field leaves the " +
		"limit of the type. See Limits.",
	"ActorRows":         "ActorRows are the rows of one actor.",
	"ActorRows.columns": "columns are set if they differ from the columns of the output.",
	"ActorRows.error": "error says why the actor has no rows, such as a missing table or a statement that ran for " +
		"2 seconds.",
	"ActorRows.truncated": "truncated is set if the actor has more rows than the answer has room for.",
	"Address":             "An Address names an actor by type and key.",
	"AlarmListOutput":     "AlarmListOutput is in the order of name and instance.",
	"AuditPage":           "A Page is a page of records, the latest first.",
	"AuditPage.cursor": "cursor selects the next page, as the Before of its query; 0 after the last. A page with a " +
		"cursor may be empty.",
	"AuditRecord": "A Record describes one successful call of an operator's method.",
	"AuditRecord.actor_id": "actor_id names the life of the actor, and version the commit that made the change. A verb " +
		"without a commit has none.",
	"AuditRecord.damaged": "damaged is set if the record cannot be read. Then only its place in the log is known, and " +
		"the actor if the query names it.",
	"AuditRecord.id": "id grows from record to record, regardless of the clock.",
	"AuditRecord.input": "input is the input of the method. before and after are the changed values, or after is " +
		"the output. A value of more than 4 KiB is {\"$size\": bytes, \"$sha256\": digest}.",
	"AuditRecord.time":   "time is when the record was written, by the clock of the node.",
	"AuditRecord.type":   "type and key are the address of the actor. Both are empty if the verb acts on the node.",
	"AuditRecord.verb":   "verb is the name of the method, or actor.destroy, sql.import or trace.sample.",
	"ChangesChange":      "A Change is one change, as it is published over NATS.",
	"ChangesChange.kind": "kind is event, state, kv, alarm, life, queue, conn, sql, workflow or audit.",
	"ChangesChange.name": "name is the name of the event, alarm, queue or method, or the transition of a life.",
	"ChangesChange.size": "size is the length of data that is left out: of more than 4096 bytes, or not JSON.",
	"ChangesRecord":      "A Record has the changes of one turn of an actor, or is a gap.",
	"ChangesRecord.actor_id": "actor_id names the life of the actor, and version the commit. Without a commit it is the " +
		"version of the last one.",
	"ChangesRecord.gap": "gap is set if records are missing here, because the follower was too slow or the " +
		"connection was lost. missed is their number, or 0 if it is not known. The record has " +
		"nothing else.",
	"Code.actor_failed": "The actor could not be woken (its state does not decode, a hook fails, it keeps " +
		"crashing). Its data is kept; Metadata \"reason\" says why and \"retry_at\" when the next " +
		"attempt is allowed. Retryable, unless the reason is ReasonDamaged.",
	"Code.actor_paused":   "An operator paused the actor. Retryable; Metadata \"reason\" says why.",
	"Code.already_exists": "An explicit create named a key that is taken.",
	"Code.canceled":       "The caller gave up. Whether the turn ran is unknown to the caller.",
	"Code.crashed": "The handler panicked. Nothing of the turn was kept. Metadata \"error_id\" finds the stack " +
		"in the node's log.",
	"Code.cycle": "The call would make actors wait for each other. Metadata \"chain\" shows the actors in " +
		"order.",
	"Code.deadline_exceeded": "The caller's deadline or the turn's own time limit passed.",
	"Code.destroyed":         "The addressed life of the actor has ended.",
	"Code.failed_precondition": "The actor is not in a state in which this call makes sense. Handlers use it for business " +
		"rules.",
	"Code.idempotency_mismatch": "The idempotency key was used before with another request.",
	"Code.internal":             "An error without a code, whose details stay in the node's log under Metadata \"error_id\".",
	"Code.invalid_argument":     "The request itself is wrong (undecodable input, a bad key part, a bad parameter).",
	"Code.not_found":            "The actor, or the thing that the handler looked for, does not exist.",
	"Code.overloaded":           "A mailbox or another bounded queue is full. Retryable; nothing was done.",
	"Code.permission_denied":    "The caller is known and may not do this.",
	"Code.quota_exceeded":       "The actor's storage quota is used up. Reads, deletes and exports go on.",
	"Code.read_only":            "A query, or something that a query called, tried to write.",
	"Code.state_too_new": "The stored state was written by a newer version of the actor's code. The data is " +
		"untouched.",
	"Code.too_large": "A key, value, message, state or write set is over its limit. Metadata names \"what\", " +
		"\"limit\" and \"actual\": OverLimit is the only way to make such an error.",
	"Code.unauthenticated": "The request carries no valid credentials.",
	"Code.unavailable": "The node is starting, draining, out of disk space or its store is read-only. Retryable " +
		"elsewhere or later.",
	"Code.unknown_method":       "The actor type has no such action or query.",
	"Code.unknown_type":         "The node hosts no such actor type.",
	"ConnectionCloseInput":      "ConnectionCloseInput closes a connection, for a reason that the client sees.",
	"ConnectionInfo":            "A ConnectionInfo describes a connection for operators.",
	"ConnectionInfo.lost":       "lost is when the client was lost; nil while it is connected.",
	"ConnectionListInput":       "ConnectionListInput pages through connections in the order of their ids.",
	"ConnectionListInput.limit": "limit is 1 to 1,000; absent means 100.",
	"ConnectionListOutput":      "ConnectionListOutput is one page.",
	"CountOutput":               "CountOutput counts what a call did.",
	"CountOutput.more": "more is set if there was more to do than one call does: call again. It is set by " +
		"queue.purge, and by calls for all messages.",
	"DeadLetter": "A DeadLetter is a message to another actor that was given up, as operators see it. Its " +
		"sender keeps it for 14 days, and up to 10,000 of them.",
	"DeadLetter.code": "code and error say why the last attempt failed.",
	"DeadLetter.expires": "expires is when it is removed; nil if an earlier release gave it up, because then it " +
		"stays.",
	"DeadLetter.input": "input is the input of the action: CBOR, or JSON with byte strings in base64; absent if " +
		"JSON cannot show it.",
	"DeadLetter.type":       "type and key name the target of the message, method the action.",
	"EmittedEvent":          "An EmittedEvent is an event that an actor emitted in a turn that is durable.",
	"EmittedEvent.life":     "life is the id of that life.",
	"EmittedEvent.sequence": "sequence counts the events of one life of the actor, from 1, without gaps.",
	"Error": "An Error is the only kind of error that crosses the border of an actor: between actors, " +
		"over HTTP and over NATS. It has no cause; what caused it stays in the log of the node " +
		"where it happened.",
	"Error.code":          "code says what happened; see the constants.",
	"Error.message":       "message is for people: one sentence, safe to show to the remote caller.",
	"Error.metadata":      "metadata holds details for programs. Nil when there are none.",
	"Error.retryable":     "retryable reports whether nothing was done and the same call may succeed later.",
	"Explanation":         "An Explanation says what an actor waits for.",
	"Explanation.details": "details are for programs: \"handler\", \"chain\", \"queue\", \"target\" and the like.",
	"Explanation.remedy": "remedy names the verb that gets the actor going, if there is one: \"resume\", \"retry\", " +
		"\"skip\", \"requeue\", \"destroy\".",
	"Explanation.since": "since is when the wait began and until when it ends by itself, as far as that is known.",
	"Explanation.text":  "text is one sentence for people.",
	"Failure":           "A Failure says why an actor does not run.",
	"Failure.code": "code is the code of the error, and error_id names its line in the node's log; \"\" if the " +
		"error has none.",
	"Failure.reason": "reason is the cause in words. For operators it includes the text of a hook or migration; " +
		"other callers read Public.",
	"InspectPage": "An InspectPage is a page of an actor's raw keyspace. next is nil at the end.",
	"KVBranch": "A Branch is a store that began as a copy of another one. It has no counts of scopes, " +
		"search, log or watchers of its own; changes that are merged into the store itself reach " +
		"them.",
	"KVBranch.from":      "from is the branch from which it was forked, as of version; absent for the store itself.",
	"KVBranch.read_only": "read_only is set if it does not change. Such a branch is a tag.",
	"KVBranchesOutput":   "BranchesOutput has the branches in the order of their names.",
	"KVChange":           "A Change is the state of an entry.",
	"KVChange.entry":     "entry is null if there is none, or it has expired.",
	"KVChanges": "Changes are the entries that differ from the watcher's last answer, in the order of their " +
		"keys. All are of one commit. States between two answers are skipped.",
	"KVChanges.more": "more is set if not all fit. The next changes follow at once, and are of this commit or a " +
		"later one. After the first changes without more the watcher has the state of one commit.",
	"KVChanges.version": "version is the version of the commit, and life the id of the actor's life that it counts " +
		"in; absent if there is no actor.",
	"KVCheck": "A Check is a condition on the entry of a key, or demands that a part of a selection is " +
		"unchanged since a page of kv.list. It has exactly one of version, exists, value and " +
		"digest.",
	"KVCheck.digest": "digest is the digest of a page of kv.list.",
	"KVCheck.exists": "exists demands that there is an entry, or that there is none.",
	"KVCheck.key":    "key is absent with digest.",
	"KVCheck.value": "value demands that there is an entry whose value equals this one, compared like $eq of " +
		"filters: numbers by value, and objects in any order.",
	"KVCheck.version": "version is the required version of the entry; 0 demands that there is no entry.",
	"KVCommitInput": "CommitInput is a commit: if all checks hold, all mutations are done, in order. Otherwise " +
		"none is. A mutation that cannot be done is an error, and then none is done either.",
	"KVCommitInput.branch": "branch is the name of the branch whose entries change; absent means the store itself.",
	"KVCommitInput.sends": "sends are messages to queues of the actor, sent after the mutations. Handlers send with " +
		"their turn instead.",
	"KVCommitOutput": "CommitOutput is the result of a commit. A failed check is no error.",
	"KVCommitOutput.blind": "blind is set if the results leave out how many entries were deleted, because the token of " +
		"the caller lacks the right read.",
	"KVCommitOutput.failed":   "failed are the positions of the checks that failed, from 0.",
	"KVCommitOutput.resolved": "resolved has the string of each placeholder: \"uuidv7\", \"uuidv7:NAME\" and \"versionstamp\".",
	"KVCommitOutput.results":  "results has an element for each mutation, in order.",
	"KVCommitOutput.sends":    "sends has an element for each send of the input.",
	"KVCommitOutput.version": "version is the version of the commit, and of the entries that it changed. Each commit " +
		"takes one, even if it is empty.",
	"KVConflict": "A Conflict is an entry that differs in both stores from their base. It is absent from one " +
		"that has none.",
	"KVCountInput":        "CountInput selects the entries to count.",
	"KVCountInput.cursor": "cursor continues after an earlier answer for the same selection. Any other is refused.",
	"KVCountOutput": "CountOutput has a count: of all if cursor is absent, and otherwise of the entries up to " +
		"where the next call continues.",
	"KVDiffInput": "DiffInput asks which entries differ between two branches, or two versions of one. A " +
		"version that is no longer known is an error with the reason history_trimmed.",
	"KVDiffInput.cursor": "cursor continues after an earlier answer for the same members. Any other cursor is " +
		"refused.",
	"KVDiffInput.limit": "limit bounds the entries; absent means 100.",
	"KVDiffOutput": "DiffOutput has the entries that differ, in the order of their keys. cursor is absent at " +
		"the end. A page may be short, or empty, because a diff of two versions of a store reads " +
		"all its entries.",
	"KVDifference": "A Difference is an entry that differs between two stores. It is absent from one that has " +
		"none.",
	"KVEntry":          "An Entry is an entry of the store.",
	"KVEntry.encoding": "encoding is the encoding of value; absent in JSON for a document.",
	"KVEntry.expires":  "expires is when the entry expires; absent for never.",
	"KVEntry.value":    "value is absent in a listing of keys.",
	"KVEntry.version":  "version is the version of the commit that wrote the entry last.",
	"KVEvent":          "An Event is the change of an entry.",
	"KVEvent.expires":  "expires is when a put entry expires; absent for never.",
	"KVEvent.op": "op is put or delete, and cause is set, delete, delete_range or expired. A delete_range " +
		"with a filter becomes several delete events.",
	"KVEvent.range": "range is the selection of a delete_range; {} is all.",
	"KVEvent.sequence": "sequence is the position in the log. It counts all events from 1, including those of " +
		"entries that the caller does not follow.",
	"KVEvent.value":   "value is the value of a put, and encoding its encoding, as in an Entry.",
	"KVEvent.version": "version is the version of the commit. A commit may have several events.",
	"KVFeedInput": "FeedInput asks for events of the log: the changes of entries in scopes with log in their " +
		"policy, in the order of the commits.",
	"KVFeedInput.after": "after is the sequence of the last event that the caller has; 0 is the beginning. If " +
		"absent, the answer has no events, and the present position.",
	"KVFeedInput.life":  "life is the life of the answer that had after; absent means the present one.",
	"KVFeedInput.limit": "limit bounds the events; absent means 100.",
	"KVFeedInput.prefixes": "prefixes, up to 16, select the entries whose keys begin with their parts. Absent means " +
		"all.",
	"KVFeedInput.wait_ms": "wait_ms is how long to wait for an event, up to one minute; absent does not wait.",
	"KVFeedOutput": "FeedOutput has the events after a position. It may have none before the wait is over, if " +
		"entries that the caller does not follow have changed.",
	"KVFeedOutput.gap": "gap is set if events are missing between the position and the first of events.",
	"KVFeedOutput.next": "next is the position to continue from, and life the id of the actor's life that it counts " +
		"in.",
	"KVForkInput":        "ForkInput makes a branch.",
	"KVForkInput.branch": "branch is its name, 1 to 255 bytes of UTF-8, which no other branch has.",
	"KVForkInput.from":   "from is the branch to begin with; absent means the store itself.",
	"KVGap":              "A Gap is a part of the log that is no longer kept, or another log.",
	"KVGap.first": "first is the sequence of the first kept event. missed counts the events before it that " +
		"the caller lacks.",
	"KVGap.reset": "reset is set if the position belongs to another life of the actor, or is beyond the last " +
		"event, as after a restore. The events begin anew. A restored log that has reached the " +
		"position again is not detected.",
	"KVGetInput":     "GetInput names an entry.",
	"KVGetManyInput": "GetManyInput names up to 1,000 entries.",
	"KVGetManyOutput": "GetManyOutput has the entries in the order of the keys, and null where there is none. All " +
		"are of one commit.",
	"KVGetOutput": "GetOutput has the entry, if there is one. A value of null is an entry.",
	"KVGroup": "A Group is the entries of a scope whose keys have the same part behind the prefix, and " +
		"more parts after it.",
	"KVGroup.part":          "part is a key of one part.",
	"KVGroupsInput":         "GroupsInput asks for a page of the groups of a scope, in the order of their parts.",
	"KVGroupsOutput":        "GroupsOutput is a page of groups. cursor is absent at the end.",
	"KVHistoryInput":        "HistoryInput asks for versions of an entry, from the newest to the oldest.",
	"KVHistoryInput.before": "before selects the versions before this one: it is the Next of an earlier answer.",
	"KVHistoryInput.branch": "branch is the name of a branch, whose own versions are listed; absent means the store " +
		"itself.",
	"KVHistoryInput.limit":  "limit bounds the versions; absent means 100.",
	"KVHistoryOutput":       "HistoryOutput has versions of an entry. next is absent at the end.",
	"KVHistoryOutput.floor": "floor is a version before which nothing is known of the entry; absent if all is known.",
	"KVHit":                 "A Hit is an entry that matches.",
	"KVHit.score":           "score is greater the better the entry matches, by BM25 with the weights of the fields.",
	"KVHit.snippet":         "snippet is part of the text of a field, in pieces.",
	"KVIndex":               "An Index is a search index.",
	"KVIndex.documents":     "documents counts the entries with text in one of the fields.",
	"KVIndex.status":        "status is ready, or building as long as entries may be missing.",
	"KVIndexField":          "An IndexField is a part of the values that an index covers.",
	"KVIndexField.path": "path names it: names between dots, indexes in brackets, or $value for the value as a " +
		"whole. The index covers strings, numbers, and arrays of them.",
	"KVIndexField.weight": "weight is how much a word of the field counts for the score, up to 1,000; absent means 1.",
	"KVIndexesOutput":     "IndexesOutput has all indexes in the order of their prefixes.",
	"KVListInput":         "ListInput asks for a page of entries in the order of their keys.",
	"KVListInput.cursor": "cursor continues after an earlier page of the same selection, filter and direction. Any " +
		"other cursor is refused.",
	"KVListInput.digest": "digest asks for the digest of the entries that the page read.",
	"KVListInput.limit":  "limit bounds the entries of the page; absent means 100.",
	"KVListInput.where": "where is a filter for the page's entries. With a filter, a page may be short or empty and " +
		"still have a cursor.",
	"KVListManyInput": "ListManyInput asks for up to 10 pages, whose limits are together up to 1,000.",
	"KVListManyOutput": "ListManyOutput has the pages in the order of the lists. All are of one commit. A page " +
		"with a limit of 1 may have a cursor at the end.",
	"KVListOutput": "ListOutput is a page. cursor is absent at the end.",
	"KVListOutput.digest": "digest identifies the part of the selection that the page covers, including entries that " +
		"do not meet the filter. A check with it demands that no entry there was written, added or " +
		"removed since.",
	"KVMergeInput": "MergeInput merges the changes of source into target: all entries in which source differs " +
		"from base. If target differs from base there too, strategy decides. With keys, or a " +
		"Selection, only those entries are merged. A merge compares up to 10,000 entries, and " +
		"reads up to 1,000,000 that have not changed.",
	"KVMergeInput.base": "base is their common origin. Absent means the point where one was forked from the other, " +
		"or both from a third, or the last merge between them: of all, and of the last 100 parts " +
		"since.",
	"KVMergeInput.dry_run": "dry_run merges nothing, and returns the result that the merge would have.",
	"KVMergeInput.keys":    "keys selects up to 1,000 entries.",
	"KVMergeInput.strategy": "strategy decides conflicts: strict merges nothing if there are any, theirs takes the " +
		"entries of source, ours keeps those of target. Absent means strict.",
	"KVMergeInput.target": "target is a branch; absent means the store itself.",
	"KVMergeOutput":       "MergeOutput is the result of a merge. A conflict is no error.",
	"KVMergeOutput.conflicts": "conflicts are up to 100 of the conflicts, in the order of their keys, even if the " +
		"strategy decided them. conflicted counts all.",
	"KVMergeOutput.ok":      "ok is false if there are conflicts that Strategy does not decide. Then nothing was done.",
	"KVMergeOutput.put":     "put and deleted count the entries of Target that the merge put and removed.",
	"KVMergeOutput.version": "version is the version of the commit.",
	"KVMoment": "A Moment selects the entries to read: those of a branch, at the last commit or in the " +
		"past.",
	"KVMoment.at": "at is a version of the actor: entries are read as they were when it was committed. Absent " +
		"means now. A version that is no longer known is an error with the reason history_trimmed. " +
		"A version has no time: an entry that expires is read until a commit removes it, soon " +
		"after. Commits do not remove the entries that a branch has from its origin: one that has " +
		"expired since is such an error too, unless the version is pinned.",
	"KVMoment.branch": "branch is the name of a branch; absent means the store itself.",
	"KVMoment.time": "time is a time, instead of at: entries are read as of the last commit by then. Times of " +
		"commits are in the order of their versions, regardless of the clock.",
	"KVMutation": "A Mutation changes entries. op is one of",
	"KVMutation.expires": "expires is when the entry expires, up to 100 years from now, instead of ttl_ms. A past " +
		"time means that there is no entry.",
	"KVMutation.key": "key is the key of the entry, for all operations except delete_range.",
	"KVMutation.literal": "literal stores a document unchanged. Otherwise the placeholders in it are replaced by " +
		"strings: {\"$uuidv7\":true}, {\"$uuidv7\":NAME} and {\"$versionstamp\":true}.",
	"KVMutation.max_len": "max_len, at least 1, bounds the elements of the array that an append or prepend makes: " +
		"elements at its other end are removed.",
	"KVMutation.min": "min and max bound the result of a sum. A result beyond them is an error, or becomes the " +
		"bound with clamp.",
	"KVMutation.ttl_ms": "ttl_ms is how long the entry lives from now, 1 ms to 100 years; 0 is for ever. If it is " +
		"absent, a changed entry keeps its time, and a put entry has the default of its scope, or " +
		"lives for ever if there is none. Touch needs it.",
	"KVMutation.where": "where is a filter of a delete_range. The filters of one commit read up to 10,000 entries; " +
		"more is an error.",
	"KVMutationResult":         "A MutationResult is the result of a mutation.",
	"KVMutationResult.deleted": "deleted counts the entries that were removed.",
	"KVMutationResult.expires": "expires is when the entry expires; absent for never.",
	"KVMutationResult.value": "value is the entry's new value, after sum, min and max only. Handlers get it after all " +
		"mutations of one entry except delete.",
	"KVPinInput":                  "PinInput keeps the present version readable.",
	"KVPinInput.ttl_ms":           "ttl_ms is for how long; absent means 60,000.",
	"KVPinOutput":                 "PinOutput names a version, for the member at of reading methods, until it expires.",
	"KVPurgeOutput":               "PurgeOutput counts the removed entries. more is set if another call would find others.",
	"KVRemoveBranchInput":         "RemoveBranchInput names a branch from which no other one was forked.",
	"KVRemoveBranchOutput":        "RemoveBranchOutput reports whether there was such a branch.",
	"KVRemoveIndexInput":          "RemoveIndexInput names an index.",
	"KVRemoveIndexOutput":         "RemoveIndexOutput says whether there was one.",
	"KVRemoveScopeInput":          "RemoveScopeInput names a scope.",
	"KVRemoveScopeInput.entries":  "entries removes its entries, too.",
	"KVRemoveScopeOutput":         "RemoveScopeOutput says what was removed.",
	"KVRemoveScopeOutput.deleted": "deleted counts the entries that were removed.",
	"KVRenderInput":               "RenderInput is a template of Go's text/template, and the entries to fill it with.",
	"KVRenderInput.prefix": "prefix selects the entries, up to 10,000 with MaxRenderBytes; absent means all. The value " +
		"of the key PREFIX, \"a\" is .a in the template, and that of PREFIX, \"a\", \"b\" is .a.b.",
	"KVRenderInput.strict": "strict refuses an absent key. Otherwise it is written as <no value>.",
	"KVRenderInput.template": "template has up to MaxTemplate bytes. Its functions are get, index, json, default, len, " +
		"and, or, not, eq, ne, lt, le, gt and ge.",
	"KVRenderOutput":       "RenderOutput has the text, of up to MaxRendered bytes.",
	"KVSampleInput":        "SampleInput asks for entries of a selection, each chosen with the same chance.",
	"KVSampleInput.cursor": "cursor continues after an earlier answer for the same selection. Any other is refused.",
	"KVSampleInput.n":      "n bounds the entries; absent means 10.",
	"KVSampleInput.seed":   "seed decides the choice: the same seed chooses the same entries from the same keys.",
	"KVSampleOutput": "SampleOutput has the entries in the order of their keys. count is the number of entries " +
		"from which they were chosen: all if cursor is absent, and otherwise those up to where the " +
		"next call continues. Their values have up to MaxValues bytes.",
	"KVScope": "A Scope is the entries whose keys begin with a prefix, with a policy and the present " +
		"counts.",
	"KVScope.declared": "declared is set if a map of the actor's type has the scope. Only the type's code changes " +
		"it.",
	"KVScopePolicy": "A ScopePolicy sets the rules for the entries of a scope. The zero value only counts.",
	"KVScopePolicy.1,000": "These bound the entries, the bytes of their keys and values, and the groups. A group is " +
		"the entries with the same next part behind the prefix, if more parts follow it. 0 is no " +
		"bound. A bound below the present count removes nothing, but allows no growth.",
	"KVScopePolicy.count_groups": "count_groups counts the groups without a bound, for kv.groups.",
	"KVScopePolicy.default_ttl_ms": "default_ttl_ms is the time to live of entries that are put without one, up to 100 years; " +
		"0 is for ever.",
	"KVScopePolicy.info": "info is any document.",
	"KVScopePolicy.keep_versions": "keep_versions is how many versions of an entry are kept besides the last. keep_for_ms is " +
		"how long a version is kept after the next one replaced it. 0 is no bound if the other is " +
		"set. If both are 0, none are kept.",
	"KVScopePolicy.log": "log keeps the changes of entries for kv.feed, in one log of the actor. log_events bounds " +
		"their number, 100,000 if absent; log_bytes their size, 64 MiB if absent; log_for_ms their " +
		"age, without end if absent. If several scopes have log, the most generous bounds hold. If " +
		"none has it any longer, the changes are removed.",
	"KVScopePolicy.read_only": "read_only refuses all changes. Entries still expire.",
	"KVScopesInput":           "ScopesInput asks for a page of scopes, in the order of their prefixes.",
	"KVScopesInput.prefix":    "prefix selects the scopes whose prefix begins with these parts.",
	"KVScopesOutput":          "ScopesOutput is a page of scopes. cursor is absent at the end.",
	"KVSearchInput":           "SearchInput asks for the entries of an index that match a query, the best first.",
	"KVSearchInput.cursor": "cursor continues after an earlier answer for the same index, query and filter. Any other " +
		"cursor is refused.",
	"KVSearchInput.limit":  "limit bounds the entries; absent means 20.",
	"KVSearchInput.prefix": "prefix is the prefix of the index.",
	"KVSearchInput.query": "query has words, \"phrases\", prefix*, OR, NOT or -, NEAR(a b, 5), field:word and " +
		"parentheses. Words without an operator must all match.",
	"KVSearchInput.snippet": "snippet bounds the words returned of each entry around the matches; absent for none.",
	"KVSearchInput.where": "where is a filter that the entries must also meet. With a filter, a page may be short or " +
		"empty and still have a cursor.",
	"KVSearchOutput":         "SearchOutput has the entries in the order of their scores. cursor is absent at the end.",
	"KVSearchOutput.partial": "partial is set while the index is being built: entries may be missing.",
	"KVSelection": "A Selection selects the entries whose keys begin with the parts of prefix, or are from " +
		"start up to and without end. start and end may end with {\"$raw\":base64}, bytes that " +
		"follow the stored form of the parts before them. Without any it selects all, which only " +
		"reading methods accept.",
	"KVSetIndexInput": "SetIndexInput makes a search index, or replaces the one of the prefix. The same " +
		"definition again changes nothing.",
	"KVSetIndexInput.prefix": "prefix is the prefix of the entries' keys; [] is the whole store.",
	"KVSetIndexInput.tokenizer": "tokenizer defines words: unicode61 (letters and digits, regardless of case and accents), " +
		"porter (the same, and English words by their stem), ascii, or trigram (any three " +
		"characters, for parts of words). Absent means unicode61.",
	"KVSetScopeInput": "SetScopeInput makes a scope, or replaces the policy of one.",
	"KVSetScopeInput.extend": "extend changes only the members of the policy that are given here, and neither 0 nor " +
		"false. The others do not change.",
	"KVSetScopeInput.prefix": "prefix is the prefix of the scope's keys; [] is the whole store.",
	"KVSnippetPart":          "A SnippetPart is a piece of a snippet.",
	"KVSnippetPart.match":    "match is set if the query matches this piece.",
	"KVUnpinInput":           "UnpinInput names a version that no reader needs.",
	"KVUnpinOutput":          "UnpinOutput reports whether it was pinned.",
	"KVVersion":              "A Version is the state of an entry from one commit until the commit of its next version.",
	"KVVersion.op":           "op is put, or delete or expire if the entry was removed.",
	"KVVersion.value":        "value and the like are set for a put.",
	"KVWatchInput":           "WatchInput names entries that the caller has seen, and waits until one differs.",
	"KVWatchInput.keys":      "keys are up to 1,000 entries.",
	"KVWatchInput.life": "life is the life of the answer with these versions. If the actor has another life by now, " +
		"all entries differ. Absent means the present one.",
	"KVWatchInput.wait_ms": "wait_ms is how long to wait for a change, up to one minute; absent does not wait.",
	"KVWatchedKey":         "A WatchedKey is an entry as a caller has seen it.",
	"KVWatchedKey.version": "version is the version of the entry; absent or 0 for none.",
	"KVWatching":           "A Watching selects the entries that a watcher watches.",
	"KVWatching.initial": "initial asks for the present entries: the first changes have all watched entries, and " +
		"null for a key without one. Otherwise they are the next to follow.",
	"KVWatching.keys": "keys are up to 1,000 keys. prefixes, up to 16, select the entries whose keys begin with " +
		"their parts; [] selects all. At least one is required.",
	"KVWatching.stored": "stored returns each value as its stored bytes, {\"$bytes\":base64}, with its encoding. " +
		"Otherwise values are as in the JSON of the methods kv.*.",
	"LimitsResetInput": "LimitsResetInput names the limits of an actor to reset to its type's, by their names in " +
		"ActorLimits; no name selects all.",
	"ListPage": "A ListPage is one page of actors. cursor is \"\" at the end.",
	"ListPage.uncertain": "uncertain names selected actors that the page leaves out because the disk failed before " +
		"their last commit was durable, even if that commit created or destroyed them. A restart " +
		"of the node shows what was kept.",
	"ListedAlarm":       "A ListedAlarm is an armed alarm as operators see it.",
	"ListedMessage":     "A ListedMessage is a message as operators see it.",
	"ListedMessage.due": "due is when a delayed or locked message can be received.",
	"ListedMessage.error": "error is why the last attempt failed, with details that senders do not get; tried is when " +
		"it failed; died is when the message became a dead letter.",
	"ListedMessage.state": "state is \"pending\", \"delayed\", \"processing\" or \"dead\".",
	"ListedRun":           "A ListedRun is a workflow run that is paused or has failed.",
	"ListedRun.run":       "run is the id of the run, in hex.",
	"ListedRun.since": "since is when the run was paused or failed. next is when a paused run is tried again by " +
		"itself; zero for never.",
	"ListedRun.text": "text is the report of the pause or the message of the failure, cut to 1,024 bytes.",
	"Pause":          "A Pause is the reason and the time of an actor's pause.",
	"PauseInput": "PauseInput pauses an actor: calls, messages, alarms and schedules wait or are refused " +
		"until it is resumed.",
	"PauseInput.reason":     "reason is shown to callers and operators, up to 1,024 bytes.",
	"QueryManyInput":        "QueryManyInput is one read-only statement over the databases of many actors of a type.",
	"QueryManyInput.args":   "args are for the parameters, as in an SQLInput.",
	"QueryManyInput.cursor": "cursor continues after an earlier answer to the same query.",
	"QueryManyInput.limit": "limit bounds the rows of the answer: 1 to 10,000; absent means 1,000. The answer is " +
		"bounded by 8 MiB, 10,000 actors and 10 seconds, too.",
	"QueryManyInput.prefix": "prefix, where and sort select the actors, and order them, as in a ListQuery.",
	"QueryManyOutput": "QueryManyOutput has the rows of the actors. The rows of one actor are of one commit, and " +
		"rows of different actors may be of different times.",
	"QueryManyOutput.columns":      "columns are the columns of the first actor with rows.",
	"QueryManyOutput.cursor":       "cursor is \"\" if no selected actor is left.",
	"QueryManyOutput.read":         "read counts the actors whose databases were read. Others have none.",
	"QueueAckInput":                "QueueAckInput says that messages are done.",
	"QueueAckInput.reply":          "reply goes to the senders that want one.",
	"QueueExtendInput":             "QueueExtendInput locks messages for longer, counted from now.",
	"QueueExtendOutput":            "QueueExtendOutput has the new end of the locks, except of lost messages.",
	"QueueHeldInput":               "QueueHeldInput asks which receipts are still valid.",
	"QueueHeldInput.wait_ms":       "wait_ms is how long to wait until one of them is no longer valid, up to 60,000.",
	"QueueHeldOutput":              "QueueHeldOutput names the valid receipts: they still lock their messages.",
	"QueueInput":                   "QueueInput names a queue.",
	"QueueListInput":               "QueueListInput pages through messages in the order of their ids.",
	"QueueListInput.after":         "after continues after a message; limit is 1 to 1,000, absent means 100.",
	"QueueListInput.ids":           "ids selects messages; none selects all.",
	"QueueListOutput":              "QueueListOutput is one page; more says that there is another, after the last id.",
	"QueueMessageInput":            "QueueMessageInput is a message to send.",
	"QueueMessageInput.backoff_ms": "backoff_ms overrides the queue's pauses; absent does not, empty means one attempt.",
	"QueueMessageInput.keys_if_undelivered": "keys_if_undelivered are keys of the key-value store: arrays of strings, numbers and " +
		"booleans.",
	"QueueMessageInput.ttl_ms":  "ttl_ms is at least 1; absent is no limit.",
	"QueueNackInput":            "QueueNackInput gives messages back, each as a failed attempt.",
	"QueueNackInput.dead":       "dead makes them dead letters at once.",
	"QueueNackInput.delay_ms":   "delay_ms overrides the pause before the next attempt; absent does not.",
	"QueueNackInput.error":      "error is kept with the message, up to 1,024 bytes.",
	"QueueReceiveInput":         "QueueReceiveInput takes messages out and locks them.",
	"QueueReceiveInput.limit":   "limit is 1 to 1,000; absent means 1.",
	"QueueReceiveInput.lock_ms": "lock_ms is how long they are locked, at least 1; absent means the queue's time.",
	"QueueReceiveInput.wait_ms": "wait_ms is how long to wait for the first message, up to 60,000; 0 does not wait.",
	"QueueReceiveOutput":        "QueueReceiveOutput has no messages if none arrived in time.",
	"QueueReplaceInput": "QueueReplaceInput changes a message that no worker holds, or a dead letter. Absent " +
		"members stay.",
	"QueueReplaceInput.delay_ms": "delay_ms is the delay before the message can be received; 0 is none. A dead letter has " +
		"none.",
	"QueueResultInput":         "QueueResultInput asks for the result of a message that was sent with WantReply.",
	"QueueResultInput.wait_ms": "wait_ms is how long to wait for it, up to 60,000.",
	"QueueResultOutput": "QueueResultOutput is the result of a message. The error code is NotFound if the message " +
		"is unknown or its reply no longer kept.",
	"QueueResultOutput.reply": "reply is the reply of the handler or worker; error is why the message became a dead " +
		"letter.",
	"QueueSelectInput":        "QueueSelectInput selects messages by id, or all.",
	"QueueSendInput":          "QueueSendInput sends messages, all or none.",
	"QueueSendInput.messages": "messages are 1 to 1,000.",
	"QueueSendOutput":         "QueueSendOutput has a result for each message.",
	"QueueSettleOutput": "QueueSettleOutput counts the settled messages and names the receipts that are no longer " +
		"valid: their lock expired, and the message is with another worker, in the queue again, or " +
		"gone. These receipts had no effect.",
	"QueueStats":          "QueueStats are the counts of one queue.",
	"QueueStats.bytes":    "bytes is the sum of the bodies that are pending, delayed or processing.",
	"QueueStats.next_due": "next_due is when the next delayed or locked message can be received, nil if there is none.",
	"QueueStats.oldest":   "oldest is when the first of the pending messages was sent; nil if none is pending.",
	"QueueStats.pending": "pending messages can be received, delayed ones not yet, processing ones are locked by " +
		"workers; dead ones were given up.",
	"QueueStats.sent":             "sent, done and failed count messages ever sent, acknowledged and given up.",
	"QueueStatsInput":             "QueueStatsInput names a queue, or \"\" for all of the actor.",
	"QueueStatsOutput":            "QueueStatsOutput is in the order of names.",
	"ReadStreamItem":              "ReadStreamItem is an item of a stream in the request's encoding.",
	"ReceivedMessage":             "ReceivedMessage is a received message in the request's encoding.",
	"ReceivedMessage.traceparent": "traceparent is the W3C trace context of the sender, if it is recorded.",
	"RunCount":                    "A RunCount is how many runs of a type are paused for a reason, or have failed.",
	"RunCounts": "RunCounts are the counts of all runs that are paused or have failed, by type, state and " +
		"reason, in that order.",
	"RunCounts.uncertain": "uncertain names the actors whose runs are not counted, for the reason of " +
		"RunPage.uncertain.",
	"RunPage": "A RunPage is one page of runs, in no particular order. It may have fewer runs than the " +
		"limit, or none, even if another page follows. cursor is \"\" at the end.",
	"RunPage.uncertain": "uncertain names the actors of the type, or of all, that each page leaves out: the disk " +
		"failed before their last commit was durable. A restart of the node shows what was kept.",
	"RunStarted":         "A RunStarted is the result of a start.",
	"RunStarted.run":     "run is the id of the run, in hex.",
	"RunStarted.started": "started is false if the run was there already.",
	"RunSummary":         "A RunSummary describes an actor's workflow run in its status.",
	"RunSummary.reason":  "reason is why it is paused.",
	"RunSummary.since":   "since is when it was started, paused or ended.",
	"RunSummary.state":   "state is the stored state: a run that only waits is running.",
	"SQLColumn":          "SQLColumn describes a column of an answer.",
	"SQLColumn.type":     "type is the declared type, \"\" for an expression.",
	"SQLInput":           "SQLInput is one or more sql statements with arguments.",
	"SQLInput.args": "args are for the parameters ?1, ?2 and so on: strings, numbers, booleans, null, or " +
		"{\"base64\": \"...\"} for bytes. Each statement takes as many of the remaining arguments as " +
		"it has parameters.",
	"SQLInput.limit": "limit bounds the rows of the answer: 1 to 10,000; absent means 1,000. The answer is " +
		"bounded by 8 MiB too.",
	"SQLInput.reason": "reason says why the statement is run, in up to 1,024 bytes. sql.exec logs it, as an " +
		"operator's or, for a type with OpenSQL, as a caller's, and requires it from operators. " +
		"Operators may run it during a pause, unless the type has OpenSQL.",
	"SQLMigrateInput":         "SQLMigrateInput applies the type's migrations.",
	"SQLMigrateInput.dry_run": "dry_run tries them on a copy, and changes nothing.",
	"SQLMigrateOutput":        "SQLMigrateOutput lists the migrations that were applied, or would be.",
	"SQLMigrateOutput.error":  "error is why a dry run failed, and migration the failed one; \"\" if it succeeded.",
	"SQLOutput":               "SQLOutput is the result of the last statement. Earlier statements run to their end.",
	"SQLOutput.changes": "changes counts the rows that the statements inserted, updated and deleted; last_insert_id " +
		"is the last rowid inserted.",
	"SQLOutput.rows": "rows hold strings, numbers, null, and {\"base64\": \"...\"} for bytes. Integers are exact, in " +
		"JSON too.",
	"SQLOutput.truncated":        "truncated is set if there are more rows.",
	"SQLStatusOutput":            "SQLStatusOutput describes an actor's database.",
	"SQLStatusOutput.exists":     "exists is set if the actor has one. The first statement that changes something creates it.",
	"SQLStatusOutput.migrations": "migrations counts the applied migrations, and pending names missing ones of the type.",
	"SQLStatusOutput.sequence":   "sequence counts the commits that changed it.",
	"Schedule": "A Schedule says when an actor's schedule handler runs. Exactly one of cron, every_ms and " +
		"at is set.",
	"Schedule.at": "at is one moment; the schedule ends with its run.",
	"Schedule.cron": "cron is an expression of five fields (minute, hour, day of month, month, day of week), or " +
		"six with seconds first, or a descriptor such as @daily. zone is the IANA name of its time " +
		"zone; \"\" means UTC.",
	"Schedule.every_ms":    "every_ms is a fixed interval in milliseconds, counted from when it was set.",
	"Schedule.keep_runs":   "keep_runs is how many runs the history keeps: 100 by default, negative for none.",
	"Schedule.last_result": "last_result is \"ok\", \"error\" or \"\"; last_error is the cause in words for every caller.",
	"Schedule.missed":      "missed is the policy for missed ticks, catch_up the cap of MissedAll.",
	"Schedule.name":        "name is the schedule's contract name, instance tells schedules of one name apart.",
	"Schedule.next":        "next is the next tick; nil if there is none.",
	"Schedule.payload": "payload is handed to the handler: CBOR inside the node, the request's encoding in " +
		"requests.",
	"Schedule.runs":      "runs counts the runs, attempts the failures of the current tick.",
	"Schedule.skipped":   "skipped counts ticks that were missed and not made up for.",
	"ScheduleInput":      "ScheduleInput names a schedule.",
	"ScheduleListInput":  "ScheduleListInput selects schedules by name; \"\" selects all.",
	"ScheduleListOutput": "ScheduleListOutput is in the order of name and instance.",
	"ScheduleRun":        "A ScheduleRun is the result of one run.",
	"ScheduleRun.result": "result is \"ok\" or \"error\"; error is the cause in words for operators.",
	"ScheduleRunsOutput": "ScheduleRunsOutput has the latest run first.",
	"SendListInput": "SendListInput pages through messages to other actors that were given up, in the order in " +
		"which they were sent.",
	"SendListInput.after": "after continues after a message; limit is 1 to 1,000, absent means 100.",
	"SendListInput.ids":   "ids selects messages; none selects all.",
	"SendListOutput":      "SendListOutput is one page; more says that there is another, after the last id.",
	"SendSelectInput":     "SendSelectInput selects messages to other actors by id, or all.",
	"SendSkipInput":       "SendSkipInput names the target of the message to move aside.",
	"Sent":                "A Sent is the result of an Enqueue.",
	"Sent.id":             "id is the id of the message; for a duplicate, the id of the first.",
	"StateOutput": "StateOutput is the state of an actor as it is stored. In JSON, byte strings are " +
		"{\"$bytes\":base64}, tags are {\"$tag\":number,\"value\":...}, maps with keys that are no text, " +
		"or that begin with \"$\", are {\"$map\":[[key,value],...]}, and numbers with a fraction or an " +
		"exponent are floating-point numbers; NaN and the infinities are {\"$float\":\"NaN\"}, " +
		"{\"$float\":\"Infinity\"} and {\"$float\":\"-Infinity\"}.",
	"StateOutput.form":    "form is the version of the state's form, which the code gives it.",
	"StateOutput.state":   "state is null if none is stored.",
	"StateOutput.version": "version is the version of the commit that wrote it; 0 if none is stored.",
	"StateReplaceInput":   "StateReplaceInput replaces the state of an actor by one in the form of the code that runs.",
	"StateReplaceInput.version": "version is the version of the state to replace. If the state has another by now, the code " +
		"is FailedPrecondition.",
	"Status":        "A Status describes an actor for operators.",
	"Status.alarms": "alarms counts armed alarms; next_alarm is the earliest.",
	"Status.attributes": "attributes are the values by which the actor is found: strings, integers, booleans and " +
		"times.",
	"Status.connections": "connections counts the clients that are connected to this node right now, tasks the tasks " +
		"that run.",
	"Status.failure": "failure says why state is Failed.",
	"Status.keys":    "keys and bytes are exact: the number of stored keys, and the sum of keys and values.",
	"Status.limits":  "limits are the limits that operators have set for the actor.",
	"Status.mailbox": "mailbox counts the calls that wait.",
	"Status.pause":   "pause says why state is Paused.",
	"Status.pending_sends": "pending_sends counts waiting messages to other actors, failed_sends messages that were " +
		"moved aside.",
	"Status.run":         "run describes the actor's workflow run; nil if it has none.",
	"Status.trace_bytes": "trace_bytes is the size of the stored spans, apart from bytes. Lists leave it out.",
	"Status.version": "version counts the turns that wrote something, including the runtime's own, such as " +
		"settling messages or moving alarms. generation counts the activations that wrote.",
	"StoredKey":               "A StoredKey is one logical key of an actor's keyspace, for inspection.",
	"StoredKey.text":          "text is the key in readable form.",
	"StoredKey.value":         "value is the stored value, cut after the number of bytes that the caller asked for.",
	"StreamAppendInput":       "StreamAppendInput appends items, all or none.",
	"StreamAppendInput.close": "close closes the stream after them; then items may be empty.",
	"StreamAppendInput.items": "items are 1 to 1,000.",
	"StreamAppendOutput":      "StreamAppendOutput is the sequence of the last item.",
	"StreamInfo":              "StreamInfo describes one stream.",
	"StreamInfo.bytes":        "bytes is the sum of the items that are kept.",
	"StreamInfo.first": "first and last are the sequences of the first and last item that is kept; last is 0 if " +
		"there never was one, and first is last+1 if none is kept.",
	"StreamInfo.life":       "life is the id of the actor's life that first and last count in.",
	"StreamInfo.updated":    "updated is when the stream was last appended to or closed; zero if it never was.",
	"StreamInput":           "StreamInput names a stream.",
	"StreamListInput":       "StreamListInput names a stream, or \"\" for all of the actor.",
	"StreamListOutput":      "StreamListOutput is in the order of names.",
	"StreamReadInput":       "StreamReadInput reads the items after a position.",
	"StreamReadInput.after": "after is the sequence of the last item that the reader has; 0 reads from the beginning.",
	"StreamReadInput.life": "life is the id of the actor's life that after counts in, or \"\" for the present one: see " +
		"Position. If the actor is gone, the error code is Destroyed if life is set and NotFound " +
		"if not.",
	"StreamReadInput.limit":   "limit is 1 to 1,000; absent means 100.",
	"StreamReadInput.wait_ms": "wait_ms is how long to wait for the first item, up to 60,000.",
	"StreamReadOutput":        "StreamReadOutput is a page of a stream in the request's encoding.",
	"StreamReadOutput.life":   "life is the id of the actor's life to which the items and next belong.",
	"StreamReadOutput.reset": "reset is set if the position belongs to another life of the actor. Reading begins anew, " +
		"and missed counts from the first item.",
	"Token":                   "A Token is a token of an actor, without its secret.",
	"Token.expires":           "expires is when the token ends; absent for never.",
	"Token.id":                "id names the token. It is part of its text, and no secret.",
	"Token.prefix":            "prefix limits the token to keys that begin with it; absent for the whole store.",
	"Token.rights":            "rights are some of read, write, watch and inspect.",
	"TokenCreateInput":        "CreateInput asks for a new token.",
	"TokenCreateInput.label":  "label is any text of up to 200 bytes.",
	"TokenCreateInput.prefix": "prefix limits the token to keys that begin with it; absent or [] for the whole store.",
	"TokenCreateInput.rights": "rights are some of read, write, watch and inspect. The last two need read. A new token " +
		"with inspect ends the previous one.",
	"TokenCreateInput.ttl_ms": "ttl_ms is how long the token is valid, up to 100 years; absent for ever.",
	"TokenCreateOutput": "CreateOutput has a new token. token is shown here and never again, because only a hash of " +
		"its secret is stored.",
	"TokenListOutput":  "ListOutput has the valid tokens of an actor, in the order of their creation.",
	"TokenRevokeInput": "RevokeInput names a token by its id.",
	"TraceEvent":       "An Event is a moment of a span.",
	"TraceFindPage": "FindPage has spans of a trace. A page ends when a node has read for a while, even if it " +
		"has found nothing.",
	"TraceFindPage.actors":     "actors counts the actors that were examined.",
	"TraceFindPage.cursor":     "cursor selects the next page; absent after the last.",
	"TraceFound":               "Found is a span of an actor.",
	"TraceLink":                "A Link refers to a related span, such as the one that sent a message.",
	"TraceReadInput":           "ReadInput selects spans of an actor.",
	"TraceReadInput.cursor":    "cursor is the cursor of the previous page.",
	"TraceReadInput.errors":    "errors selects spans that ended with an error.",
	"TraceReadInput.limit":     "limit bounds the spans of a page; 0 is 1,000.",
	"TraceReadInput.max_bytes": "max_bytes bounds the bytes of the spans of a page and their parents, as OTLP; 0 is 4 MiB.",
	"TraceReadInput.name":      "name selects the spans with a name.",
	"TraceReadInput.start": "start and end bound a time. Spans that overlap it are selected, regardless of their " +
		"length. An absent one is no bound.",
	"TraceReadInput.trace_id": "trace_id selects the spans of one trace, by its 32 hexadecimal digits.",
	"TraceReadOutput":         "ReadOutput is a page of spans, in the order of their starts.",
	"TraceReadOutput.cursor":  "cursor selects the next page; absent after the last.",
	"TraceReadOutput.damaged": "damaged names the keys of stored spans that cannot be read.",
	"TraceReadOutput.dropped": "dropped counts the spans of that time that are missing, because there were too many.",
	"TraceReadOutput.now":     "now is the time of the node.",
	"TraceReadOutput.parents": "parents are the parents of the page's spans, except for spans of the page, as far as " +
		"there is room.",
	"TraceRule": "A Rule decides which traces are recorded, and which operations even if their trace is " +
		"not. An absent member has the value of the node's configuration or, for a type, of the " +
		"other types, except that a type with a rule has its own rate.",
	"TraceRule.per_second": "per_second bounds the recorded traces that begin in a second.",
	"TraceRule.share":      "share is the part of the traces that is recorded, up to per_second.",
	"TraceRule.slow_ms":    "slow_ms is the time, in milliseconds, from which a turn or query is recorded in any case.",
	"TraceSampling":        "A Sampling decides which of the traces that begin at a node are recorded.",
	"TraceSampling.types":  "types has the rules of single types.",
	"TraceSpan":            "A Span is an operation. Without an end it has not ended.",
	"TraceSpan.kind":       "kind is internal, server, client, producer or consumer.",
	"TraceSpan.remote":     "remote is set if the parent is a span of another actor or process.",
	"TraceSpan.scope":      "scope is the name of the code that made the span; absent for the runtime itself.",
	"TraceSpan.status":     "status is ok or error; absent if it was not set.",
	"UsageActor":           "An Actor is the work of one actor.",
	"UsageDay":             "A Day is the work of an actor on a day.",
	"UsageGetInput":        "GetInput selects days of an actor.",
	"UsageGetInput.from": "from and to are the first and the last day, such as 2026-11-27, in UTC. If absent, they " +
		"are the first that is kept and today.",
	"UsageGetOutput": "GetOutput has the days of an actor in their order, including days without work.",
	"UsagePage": "A Page is a page of actors in the order of their keys, without actors that were created " +
		"after the day.",
	"UsagePage.cursor": "cursor selects the next page; absent after the last.",
	"UsagePage.uncertain": "uncertain names actors that are left out, because the disk failed and it is not known " +
		"whether their last commit is kept.",
	"UsageTop":               "A Top has the actors that did most, in descending order.",
	"UsageWork":              "A Work is the work of an actor in some time.",
	"UsageWork.bytes_stored": "bytes_stored are its keys and values at the end of that time.",
	"UsageWork.bytes_written": "bytes_written are the keys and values of its commits, and bytes_sent its answers and the " +
		"events that clients got.",
	"UsageWork.calls":      "calls are the actions, queries and built-in methods that it answered.",
	"UsageWork.handler_us": "handler_us is the time in handlers of turns and queries, in microseconds.",
	"Welcome":              "A Welcome is the first message to a connected client.",
	"Welcome.cursor":       "cursor is the sequence of the last event before the first of the connection.",
	"Welcome.life": "life is the id of the actor's life to which cursor and all events of the connection " +
		"belong.",
	"Welcome.token":               "token resumes the connection; it is a secret of the client's.",
	"WorkflowControlInput":        "WorkflowControlInput has the arguments of an operation on a run.",
	"WorkflowControlInput.entry":  "entry is the id of an entry of the history, for retry and rewind.",
	"WorkflowControlInput.reason": "reason is kept with the run; up to 1,024 bytes.",
	"WorkflowControlInput.run": "run, if not \"\", is the id of the run to control; the error code is FailedPrecondition if " +
		"the actor has another.",
	"WorkflowHistoryInput": "WorkflowHistoryInput pages through the history of a run, in the order of its entries' " +
		"places.",
	"WorkflowHistoryInput.after":  "after continues after an entry, by its id. under selects the entries below one.",
	"WorkflowHistoryInput.limit":  "limit is 1 to 1,000; absent means 100.",
	"WorkflowHistoryOutput":       "WorkflowHistoryOutput is one page; more says that there is another, after the last entry.",
	"WorkflowImportInput":         "WorkflowImportInput makes a run from a recording, as of the time of the recording.",
	"WorkflowImportInput.replace": "replace drops the history of a run that has ended.",
	"WorkflowImportInput.up_to":   "up_to is the last entry of the recording that the run has, by its id; \"\" for all.",
	"WorkflowRecording":           "WorkflowRecording is a run with its whole history.",
	"WorkflowResultInput":         "WorkflowResultInput asks for the result of a run.",
	"WorkflowResultInput.wait_ms": "wait_ms is how long to wait for it, up to 60,000.",
	"WorkflowResultOutput":        "WorkflowResultOutput is the result of a run, if it has ended.",
	"WorkflowResultOutput.output": "output is the output of the workflow, failure why it failed.",
	"WorkflowResultOutput.run":    "run is the id of the run.",
	"WorkflowResultOutput.state":  "state is the state of workflow/host.RunStatus.",
	"WorkflowStartInput": "WorkflowStartInput starts a run. Starting again with the same input returns the existing " +
		"run, live or ended.",
	"WorkflowStartInput.replace": "replace starts anew if a run has ended, and drops its history.",
	"WorkflowWatchInput":         "WorkflowWatchInput asks for the changes of a run since a version of the actor.",
	"WorkflowWatchInput.wait_ms": "wait_ms is how long to wait for a change, up to 60,000.",
	"WorkflowWatchOutput": "WorkflowWatchOutput has the changes. Removed entries, such as those of old iterations, " +
		"are not listed: if count differs from a watcher's number, it reads the history anew.",
	"WorkflowWatchOutput.count":   "count is the number of entries. more is set if one answer does not hold all changes.",
	"WorkflowWatchOutput.version": "version is the version of the last change, for the next call.",
}

// hostEnums are the closed lists of names.
var hostEnums = map[string][]string{
	"Measure": {
		"turns",
		"time",
		"bytes",
		"size",
	},
	"Missed": {
		"once",
		"all",
		"none",
	},
	"Placeholder": {
		"versionstamp",
		"uuidv7",
	},
	"State": {
		"asleep",
		"awake",
		"paused",
		"failed",
	},
	"Why": {
		"type",
		"failed",
		"paused",
		"call",
		"turn",
		"disk",
		"unwritable",
		"publisher",
		"mailbox",
		"tasks",
		"sends",
		"workflow",
		"queue",
		"workers",
		"locked",
		"alarm",
		"connections",
		"dead",
		"calls",
	},
}
