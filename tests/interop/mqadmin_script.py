"""The `mqadmin` session that is held with our name server and with Apache's: every command, and what may differ.

The commands run in this order, once in each of two like worlds (same addresses, an Apache broker in each), so what
one command changes the next ones show. `{namesrv}`, `{broker}` and the names a step captures are filled in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

CLUSTER = "DefaultCluster"
BROKER = "broker-a"


@dataclass(frozen=True)
class Step:
    """One command. `-n {namesrv}` is added."""

    command: str
    until: str | None = None
    """Repeat until the answer matches: for what Apache's broker does a moment after it has answered."""
    captures: dict[str, str] = field(default_factory=dict)
    """Name → pattern with one group, found in the answer and usable in later commands."""
    reads: str | None = None
    """A file the command writes in the shell's folder; its content is part of the answer."""


SCRIPT: tuple[Step, ...] = (
    # Topics: made by cluster and by broker, with order configuration, unit flags and attributes.
    Step(f"updateTopic -c {CLUSTER} -t Orders -r 4 -w 4"),
    Step("updateTopic -b {broker} -t Narrow -r 2 -w 3 -p 6"),
    Step(f"updateTopic -c {CLUSTER} -t Sorted -r 4 -w 4 -o true"),
    Step("updateTopic -b {broker} -t SortedByBroker -r 2 -w 2 -o true"),
    Step(f"updateTopic -c {CLUSTER} -t Unit -r 1 -w 1 -u true -s true"),
    Step(f"updateTopic -c {CLUSTER} -t Fifo -r 1 -w 1 -a +message.type=FIFO"),
    Step("updateTopic -c NoSuchCluster -t Orders"),
    Step(f"updateTopicList -c {CLUSTER} -f {{topics_file}}"),
    Step(f"updateTopicPerm -c {CLUSTER} -t Narrow -p 4"),
    Step("updateTopicPerm -b {broker} -t Narrow -p 6"),
    Step(f"updateTopicPerm -c {CLUSTER} -t NoSuchTopic -p 4"),
    # The routes of all that.
    *(Step(f"topicRoute -t {topic}") for topic in ("Orders", "Narrow", "Sorted", "Unit", "Fifo", "TBW102")),
    Step("topicRoute -t Orders -l"),
    Step("topicRoute -t NoSuchTopic"),
    Step("topicRoute -t NoSuchTopic -l"),
    Step("topicList"),
    Step("topicList -c"),
    Step("topicClusterList -t Orders"),
    Step("topicClusterList -t NoSuchTopic"),
    Step("topicStatus -t Orders"),
    Step(f"topicStatus -t Orders -c {CLUSTER}"),
    Step("topicStatus -t NoSuchTopic"),
    Step("allocateMQ -t Orders -i 10.0.0.1,10.0.0.2,10.0.0.3"),
    Step("allocateMQ -t NoSuchTopic -i 10.0.0.1"),
    # The cluster.
    Step("clusterList"),
    Step(f"clusterList -c {CLUSTER}"),
    Step("clusterList -c NoSuchCluster"),
    Step("clusterList -m"),
    Step(f"brokerStatus -c {CLUSTER}"),
    Step("brokerStatus -c NoSuchCluster"),
    Step(f"haStatus -c {CLUSTER}"),
    Step(f"getBrokerEpoch -c {CLUSTER}"),
    Step(f"getBrokerEpoch -b {BROKER}"),
    Step(f"getSyncStateSet -a 127.0.0.1:9 -c {CLUSTER}"),
    Step(f"getBrokerConfig -c {CLUSTER}"),
    Step("getBrokerConfig -c NoSuchCluster"),
    Step(f"updateBrokerConfig -c {CLUSTER} -k flushCommitLogTimed -v true"),
    # Key-value configuration.
    Step("updateKvConfig -s SPACE -k key -v value"),
    Step("updateKvConfig -s SPACE -k key -v other"),
    Step("deleteKvConfig -s SPACE -k key"),
    Step("deleteKvConfig -s SPACE -k key"),
    Step("deleteKvConfig -s NO_SUCH_SPACE -k key"),
    Step("updateOrderConf -m get -t Sorted"),
    Step("updateOrderConf -m get -t SortedByBroker"),
    Step("updateOrderConf -m get -t Orders"),
    Step("updateOrderConf -m frobnicate -t Orders"),
    # Of a topic that is gone before exports: a broker that registers meanwhile notes the order, and keeps it.
    Step(f"updateTopic -c {CLUSTER} -t Passing -r 4 -w 4"),
    Step(f"updateOrderConf -m put -t Passing -v {BROKER}:4"),
    Step("updateOrderConf -m get -t Passing"),
    Step("topicRoute -t Passing"),
    Step("updateOrderConf -m delete -t Passing"),
    Step("updateOrderConf -m get -t Passing"),
    Step("topicRoute -t Passing"),
    Step(f"deleteTopic -c {CLUSTER} -t Passing"),
    # The name server's own configuration.
    Step("getNamesrvConfig"),
    Step("updateNamesrvConfig -k orderMessageEnable -v true"),
    Step("getNamesrvConfig"),
    Step("topicRoute -t Sorted"),
    Step("updateNamesrvConfig -k orderMessageEnable -v false"),
    Step("updateNamesrvConfig -k kvConfigPath -v /elsewhere/kvConfig.json"),
    Step("updateNamesrvConfig -k configStorePath -v /elsewhere/namesrv.properties"),
    Step("updateNamesrvConfig -k rocketmqHome -v /elsewhere"),
    Step("updateNamesrvConfig -k configBlackList -v nothing"),
    Step("updateNamesrvConfig -k noSuchKey -v value"),
    Step("updateNamesrvConfig -k enableTopicList -v false"),
    Step("topicList -c"),
    Step("updateNamesrvConfig -k enableTopicList -v true"),
    Step("updateNamesrvConfig -k enableAllTopicList -v false"),
    Step("topicList"),
    Step("updateNamesrvConfig -k enableAllTopicList -v true"),
    Step("getNamesrvConfig"),
    # Write permission.
    Step(f"wipeWritePerm -b {BROKER}"),
    Step("topicRoute -t Orders"),
    Step("topicRoute -t TBW102"),
    Step(f"addWritePerm -b {BROKER}"),
    Step("topicRoute -t Orders"),
    Step("topicRoute -t TBW102"),
    Step("wipeWritePerm -b no-such-broker"),
    Step("addWritePerm -b no-such-broker"),
    # Messages: every client inside mqadmin finds its broker through the name server.
    Step(
        f"sendMessage -t Orders -b {BROKER} -i 0 -k the-key -c the-tag -p the-body",
        captures={"unique_id": r"SEND_OK\s+(\w+)"},
    ),
    Step("sendMessage -t Automatic -p body"),
    Step("topicRoute -t Automatic", until="queueDatas"),
    Step(f"sendMsgStatus -b {BROKER} -s 16 -c 2"),
    Step("checkMsgSendRT -t Orders -a 2 -s 16"),
    Step(
        f"queryMsgByOffset -t Orders -b {BROKER} -i 0 -o 0",
        until="OffsetID",
        captures={"offset_id": r"OffsetID: +(\w+)"},
    ),
    Step("queryMsgByKey -t Orders -k the-key", until=r"^7F\w+ +0 +0"),
    Step("queryMsgById -t Orders -i {offset_id}"),
    Step("queryMsgByUniqueKey -t Orders -i {unique_id}", until="Message Body Path"),
    Step("queryMsgTraceById -i {unique_id}"),
    Step("queryCq -t Orders -q 0 -i 0 -b {broker}"),
    Step("queryCq -t Orders -q 0 -i 0"),
    Step("printMsg -t Orders"),
    Step(f"printMsgByQueue -t Orders -a {BROKER} -i 0 -p true -d true"),
    Step(f"consumeMessage -t Orders -b {BROKER} -i 0 -o 0 -c 1"),
    Step("consumeMessage -t NoSuchTopic"),
    Step("printMsg -t NoSuchTopic"),
    Step("queryMsgByKey -t NoSuchTopic -k the-key"),
    # Groups.
    Step(f"updateSubGroup -c {CLUSTER} -g Group"),
    Step("updateSubGroup -c NoSuchCluster -g Group"),
    Step(f"updateSubGroupList -c {CLUSTER} -f {{groups_file}}"),
    Step(f"setConsumeMode -c {CLUSTER} -t Orders -g Group -m PULL"),
    Step(f"updateTopic -c {CLUSTER} -t %RETRY%Group -r 1 -w 1"),
    Step("getConsumerConfig -g Group"),
    Step("getConsumerConfig -g NoSuchGroup"),
    Step("consumerProgress", until="^TOOLS_CONSUMER +0"),  # mqadmin's own consumer of a moment ago
    Step("consumerProgress -g Group"),
    Step("consumerStatus -g Group"),
    Step("consumerConnection -g Group"),
    Step("producerConnection -g Group -t Orders"),
    Step("resetOffsetByTime -g Group -t Orders -s now"),
    Step("skipAccumulatedMessage -g Group -t Orders"),
    Step("cloneGroupOffset -s Group -d Group2 -t Orders"),
    Step("statsAll"),
    Step("statsAll -t Orders"),
    Step(f"deleteSubGroup -c {CLUSTER} -g Group"),
    # Exports (before the static topic: with one, Apache's tool cannot read its broker's answer).
    Step(f"exportMetadata -c {CLUSTER} -f {{folder}}", reads="metadata.json"),
    Step(f"exportConfigs -c {CLUSTER} -f {{folder}}", reads="configs.json"),
    Step(f"exportMetrics -c {CLUSTER} -f {{folder}}", reads="metrics.json"),
    Step(f"exportPopRecord -c {CLUSTER} -d true"),
    # Static topics.
    Step(f"updateStaticTopic -c {CLUSTER} -t Static -qn 4"),
    Step("topicRoute -t Static", until=rf'"topicQueueMappingByBroker":\s*{{\s*"{BROKER}"'),
    Step(f"remappingStaticTopic -c {CLUSTER} -t Static"),
    Step("updateStaticTopic -c NoSuchCluster -t Static -qn 4"),
    # Maintenance by cluster.
    Step(f"cleanExpiredCQ -c {CLUSTER}"),
    Step(f"deleteExpiredCommitLog -c {CLUSTER}"),
    Step(f"cleanUnusedTopic -c {CLUSTER}"),
    Step("cleanUnusedTopic"),
    Step(f"getColdDataFlowCtrInfo -c {CLUSTER}"),
    Step(f"updateColdDataFlowCtrGroupConfig -c {CLUSTER} -g Group -v 100"),
    Step(f"removeColdDataFlowCtrGroupConfig -c {CLUSTER} -g Group"),
    Step(f"setCommitLogReadAheadMode -c {CLUSTER} -m 1"),
    Step(f"checkRocksdbCqWriteProgress -c {CLUSTER}"),
    Step(f"switchTimerEngine -c {CLUSTER} -e F"),
    Step(f"rocksDBConfigToJson -c {CLUSTER} -t topics"),
    # Users and permissions.
    Step(f"createUser -c {CLUSTER} -u someone -p secret1"),
    Step(f"updateUser -c {CLUSTER} -u someone -p secret2"),
    Step(f"getUser -c {CLUSTER} -u someone"),
    Step(f"listUser -c {CLUSTER}"),
    Step(f"createAcl -c {CLUSTER} -s User:someone -r Topic:Orders -a Pub -d Allow"),
    Step(f"updateAcl -c {CLUSTER} -s User:someone -r Topic:Orders -a Sub -d Allow"),
    Step(f"getAcl -c {CLUSTER} -s User:someone"),
    Step(f"listAcl -c {CLUSTER}"),
    Step(f"deleteAcl -c {CLUSTER} -s User:someone"),
    Step(f"deleteUser -c {CLUSTER} -u someone"),
    # Lite topics.
    Step(f"getBrokerLiteInfo -c {CLUSTER}"),
    Step("getParentTopicInfo -p Orders"),
    Step("getLiteTopicInfo -p Orders -l lite"),
    Step("getLiteClientInfo -p Orders -g Group -c client"),
    Step("getLiteGroupInfo -p Orders -g Group"),
    Step("triggerLiteDispatch -p Orders -g Group"),
    # And away again.
    Step(f"deleteTopic -c {CLUSTER} -t Orders"),
    Step("topicRoute -t Orders"),
    Step(f"deleteTopic -c {CLUSTER} -t NoSuchTopic"),
    Step("deleteTopic -c NoSuchCluster -t Narrow"),
    Step("topicList"),
)

NOT_ASKED: dict[str, str] = {
    "brokerConsumeStats": "talks to the broker it is given only",
    "producer": "talks to the broker it is given only",
    "resetMasterFlushOffset": "talks to the broker it is given only",
    "addBroker": "talks to a broker container only",
    "removeBroker": "talks to a broker container only",
    "getControllerMetaData": "talks to a controller only",
    "getControllerConfig": "talks to a controller only",
    "updateControllerConfig": "talks to a controller only",
    "electMaster": "talks to a controller only",
    "cleanBrokerMetadata": "talks to a controller only",
    "copyUser": "talks to the two brokers it is given only",
    "copyAcl": "talks to the two brokers it is given only",
    "dumpCompactionLog": "reads a local file only",
    "exportMetadataInRocksDB": "reads local files only",
    "clusterRT": "never ends; asks the name server what clusterList and sendMessage ask",
    "startMonitoring": "never ends; asks the name server what topicList and consumerProgress ask",
}
"""Commands left out, each with the reason; a test holds that no other command is."""


@dataclass(frozen=True)
class Mask:
    commands: str
    """The command's name, or * for all."""
    pattern: str
    """What is masked: the groups of a match, or all of it when there are none. `{world}` is the world's folder."""
    reason: str
    shown: str = "…"
    """What stands in its place."""


MASKS: tuple[Mask, ...] = (
    Mask("*", "{world}", "each world has its own folder"),
    Mask("*", r"\b7F000001(?!0000)[0-9A-F]{24}\b", "message id: made from the sending process's id and clock"),
    Mask("*", r"[bB]orn ?[hH]ost[:=] */?127\.0\.0\.1:(\d+)", "the sending client's port"),
    Mask("*", r"(?:born|store)Timestamp=(\d+)", "the time of the run"),
    Mask("*", r"(?:Born|Store) Timestamp: +(.*)", "the time of the run"),
    Mask("*", r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", "the time of the run"),
    Mask("brokerStatus", r": (.*)$", "the broker's running figures: times, rates and sizes it measured"),
    Mask("clusterList", r" (\d+\.\d\d\(.*) (?:true|false)$", "the broker's running figures"),
    Mask("checkMsgSendRT", r"(?:true +|Avg RT: )([\d.]+)", "a measured time"),
    Mask("sendMsgStatus", r"rt=(\d+)ms", "a measured time"),
    Mask("sendMessage", r" (\d) +SEND_OK", "the client chooses the queue at random"),
    Mask("resetOffsetByTime", r"timestamp\(long\)\[(\d+)\]", "the time of the run"),
    Mask("updateStaticTopic", r"Static-(\d+)\.", "the time of the run"),
    Mask("remappingStaticTopic", r"Static-(\d+)\.", "the time of the run"),
    Mask("topicRoute", r'"epoch":(\d+)', "a static topic's epoch is the time it was made"),
    Mask("exportMetadata", r'"exportTime":(\d+)', "the time of the run"),
    Mask("exportMetrics", r'Tps":([\d.E-]+)', "the broker's running figures"),
    Mask("statsAll", r" (\d+ +\d+\.\d\d .*)$", "the broker's running figures"),
    Mask(
        "getNamesrvConfig",
        r"^(?:configStorePath|kvConfigPath|rocketmqHome) += +(.*)$",
        "where an installation keeps its files; ours needs no ROCKETMQ_HOME",
    ),
    Mask(
        "getNamesrvConfig",
        r"^(?:aclAccountsFile|aclEnable|aclOpenReads|adminLoopbackOnly|dataDir|httpBind|httpPort|journalEnable"
        r"|journalFileCount|journalFileSize|maxConnections|maxFrameSize|maxHeldRequests|maxWatchTopics"
        r"|partialFrameSeconds|productNamesrvAddr|routeCacheBytes|warmStart|warmStartSeconds) +=.*\n",
        "settings of what Apache's name server does not have",
        shown="",
    ),
    Mask(
        "getBrokerLiteInfo",
        r"^127\S+ +\w+(?: +\d+){4} +(\d+)",
        "the number of queues in use: the client chooses queues at random",
    ),
    Mask("getLiteGroupInfo", r"Min Unconsumed Timestamp: (.*)", "the time of the run"),
)

UNORDERED: dict[str, str] = {
    "topicList": "the answer is a set; mqadmin prints it in the order of its hash table",
    "statsAll": "goes through the topic list",
    "getNamesrvConfig": "mqadmin prints its hash table, whose order depends on how many settings there are",
}
"""Commands whose lines are compared without regard to order, each with the reason."""
